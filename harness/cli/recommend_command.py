"""`python -m harness recommend RUN seq_len=…`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.cli import DONE
from harness.cli.parser import Parser
from harness.errors import UsageError
from harness.report import units
from harness.report.escaped import printable

if TYPE_CHECKING:
    from harness.cli.asked import Asked
    from harness.findings.recommendation import Candidate, Cost, Recommendation

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
# An interval that reaches further than this factor to either side is too wide to print its ends.
_GUESS = 100

_EPILOG = """\
keys:
  seq_len                                 the length, or several: 1024,4096; it need not have been measured
  d_model num_heads batch_size            as measured, if there is one value of each; need not have been either
  memory=8GiB                             leave out what may need more, beyond weights and inputs
  mode dtype device threads allocator mask real_share source_len
                                          which of the run's settings, where there are several; mode=forward

A pytest-benchmark JSON stands in for a run if its benchmarks say their seq_len in extra_info.

examples:
  python -m harness recommend results/latest seq_len=4096 d_model=512 num_heads=8
  python -m harness recommend results/latest seq_len=1024 d_model=256 num_heads=4 memory=64MiB mode=train

exit status: 0 done; 2 usage, or no layer fits
"""


def run(arguments: Sequence[str]) -> int:
    """Print the recommended layer at each size."""
    parser = Parser("recommend", "Which layer to use at a size, by how much, and how sure. Measures nothing.", _EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or a pytest-benchmark JSON")
    parser.add_argument("keys", nargs="*", metavar="key=value")
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that fits laws.
    from harness.cli.asked import SETTING, SIZES, asked, keys
    from harness.cli.read import lines_of
    from harness.findings.laws import fit_laws
    from harness.findings.prediction import predict_cost
    from harness.findings.recommendation import recommend

    given = keys(options.keys, (*SIZES, "batch_size", "memory", *SETTING))
    memory = _bytes(given["memory"]) if "memory" in given else None
    lines = lines_of(options.run)
    laws = fit_laws(lines)
    sizes = asked(given, laws, options.run)
    console, refused = Console(), []
    for where in sizes:
        found = recommend(lines, laws, where.setting, where.size, memory, predict_cost)
        if reason := _refusal(found, memory):
            refused.append(f"At {where}: {reason}." if len(sizes) > 1 else reason)
        else:
            _show(found, where, memory, console)
    if len(refused) == len(sizes):
        raise UsageError(refused[0])
    for sentence in refused:
        console.print(escape(printable(sentence)), highlight=False)
    return DONE


def _bytes(text: str) -> int:
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        value = int(float(text.removesuffix(unit)) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        value = 0
    if value < 1:
        raise UsageError(f"memory={text}: give bytes, or a number with {', '.join(_UNITS)}")
    return value


def _refusal(found: "Recommendation", memory: int | None) -> str | None:
    """Why no layer can be recommended; None if one can."""
    if found.ranked:
        return None
    if found.too_large and memory is not None:
        least = min(found.too_large, key=lambda one: one.memory.hi if one.memory else 0.0)
        return (
            f"no layer is sure to fit into memory={units.size(memory)}: {least.impl} needs least, "
            f"up to {units.size(least.memory.hi if least.memory else 0.0)}"
        )
    return f"nothing can be said there: {found.unknown[0][0]}: {found.unknown[0][1]}"


def _show(found: "Recommendation", where: "Asked", memory: int | None, console: Console) -> None:
    for sentence in sentences(found, where, memory):
        console.print(escape(printable(sentence)), highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("impl", overflow="fold")
    for heading in ("time", "between", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for one in found.ranked:
        table.add_row(escape(printable(one.impl)), *_cells(one), "measured" if one.time.measured else "predicted")
    console.print(table)
    for warning in warnings(found):
        console.print(escape(printable(warning)), highlight=False)


def sentences(found: "Recommendation", where: "Asked", memory: int | None) -> list[str]:
    """The recommendation in words."""
    first = found.ranked[0]
    said = [f"Use {first.impl} at {where}: {units.seconds(first.time.value)} a call{_between(first.time)}."]
    if found.share is None:
        said.append("It is the only one to choose from.")
    elif found.ratio is not None and found.ratio_lo is not None and found.ratio_hi is not None:
        known = found.ratio_hi < _GUESS * found.ratio and found.ratio < _GUESS * found.ratio_lo
        reach = f" ({found.ratio_lo:.2f} to {found.ratio_hi:.2f})" if known else ""
        said.append(
            f"{found.ratio:.2f} times as fast as {found.ranked[1].impl}{reach}; {found.how_sure}: the fastest in "
            f"{100 * found.share:.0f} of 100 draws from what is known of each."
        )
    for one in found.too_large:
        if one.memory is not None and memory is not None:
            said.append(
                f"Left out: {one.impl}, which may need {units.size(one.memory.hi)}, more than {units.size(memory)}."
            )
    return said + [f"Left out: {impl}: {why}." for impl, why in found.unknown]


def warnings(found: "Recommendation") -> list[str]:
    """The warnings of the predictions, each once."""
    said: dict[str, list[str]] = {}
    for one in found.ranked:
        for what, cost in (("time", one.time), ("memory", one.memory)):
            for warning in cost.warnings if cost is not None else ():
                said.setdefault(f"{what}: {warning}", []).append(one.impl)
        if one.memory is None:
            said.setdefault("its memory is not known", []).append(one.impl)
    return [f"{', '.join(impls)}: {warning}" for warning, impls in said.items()]


def _cells(one: "Candidate") -> tuple[str, str, str]:
    memory = units.size(one.memory.value) if one.memory is not None else ""
    return units.seconds(one.time.value), _between(one.time).strip(" ()"), memory


def _between(cost: "Cost") -> str:
    if cost.hi == float("inf"):
        return " (one trial)"
    if cost.hi > _GUESS * cost.value or cost.value > _GUESS * cost.lo:
        return f" (± {_GUESS} times or more)"
    return f" ({units.seconds(cost.lo)} to {units.seconds(cost.hi)})"
