"""`python -m harness list`."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from harness.cli import DONE
from harness.cli.parser import Parser
from impls.registry import IMPLS, Impl

_WORK = ("work", "work_train", "work_decode")
_ORDERS = ("memory", "depth", "path")
# A block exists around every attention layer that fits, so all blocks of a kind share one line.
_BLOCKS = {
    "encoder": "attention, feed-forward of 4d, residuals, norms, positions",
    "decoder": "the same, causal, and with attention over a source",
    "encoder6": "six blocks of the encoder in a row, positions in the first alone",
}


def run(arguments: Sequence[str]) -> int:
    """Print the registered layers."""
    Parser("list", "The layers that can be measured, and what theory claims of them.").parse_args(arguments)
    console = Console()
    rungs = [impl for impl in IMPLS.values() if impl.family not in _BLOCKS]
    console.print(_layers(rungs))
    console.print(
        _claims(rungs, _WORK, "of one sequence, exactly; a multiply-add is 2, and elementwise work is not counted")
    )
    console.print(_claims(rungs, _ORDERS, "by order; memory in words, beyond weights and input"))
    return DONE


def _layers(rungs: Iterable[Impl]) -> Table:
    table = Table(
        caption="your own layer: impl=module:Class, built as Class(d_model=…, num_heads=…)", caption_justify="left"
    )
    table.add_column("impl", no_wrap=True)
    table.add_column("what it is")
    for impl in rungs:
        table.add_row(impl.name, impl.summary)
    for family, what in _BLOCKS.items():
        inside = [name.removeprefix(f"{family}.") for name, impl in IMPLS.items() if impl.family == family]
        table.add_row(f"{family}.…", f"{what}; around {', '.join(inside)}")
    return table


def _claims(rungs: Iterable[Impl], claims: Sequence[str], caption: str) -> Table:
    table = Table(caption=caption, caption_justify="left")
    table.add_column("impl", no_wrap=True)
    for claim in claims:
        table.add_column(claim.replace("_", ", "))
    for impl in rungs:
        table.add_row(impl.name, *(getattr(impl, claim) for claim in claims))
    return table
