"""`python -m harness list`."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from harness.cli import DONE
from harness.cli.parser import Parser
from impls.registry import IMPLS


def run(arguments: Sequence[str]) -> int:
    """Print the registered layers."""
    Parser("list", "The layers that can be measured, and what theory claims of them.").parse_args(arguments)
    table = Table(
        caption="your own layer: impl=module:Class, built as Class(d_model=…, num_heads=…)", caption_justify="left"
    )
    for heading in ("impl", "what it is", "work", "memory", "depth"):
        table.add_column(heading, no_wrap=heading == "impl")
    for impl in IMPLS.values():
        table.add_row(impl.name, impl.summary, impl.work, impl.memory, impl.depth)
    Console().print(table)
    return DONE
