"""`python -m harness list`."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from harness.claims import CLAIMS
from harness.cli import DONE
from harness.cli.parser import Parser
from impls.registry import IMPLS


def run(arguments: Sequence[str]) -> int:
    """Print the registered layers."""
    Parser("list", "The layers that can be measured, and what theory claims of them.").parse_args(arguments)
    layers = Table(
        caption="your own layer: impl=module:Class, built as Class(d_model=…, num_heads=…)", caption_justify="left"
    )
    claims = Table(
        caption="for one sequence; work exactly, a multiply-add being 2; memory, depth and path by order",
        caption_justify="left",
    )
    for heading in ("impl", "what it is"):
        layers.add_column(heading, no_wrap=True)
    for heading in ("impl", *CLAIMS):
        claims.add_column(heading.replace("_", ", "), no_wrap=True)
    for impl in IMPLS.values():
        layers.add_row(impl.name, impl.summary)
        claims.add_row(impl.name, *(getattr(impl, claim) for claim in CLAIMS))
    console = Console()
    console.print(layers)
    console.print(claims)
    return DONE
