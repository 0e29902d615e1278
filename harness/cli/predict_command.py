"""`python -m harness predict RUN impl=… seq_len=…`."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.cli import DONE
from harness.cli.parser import Parser
from harness.errors import UsageError, did_you_mean
from harness.report import units
from harness.report.escaped import printable

if TYPE_CHECKING:
    from harness.cli.asked import Asked
    from harness.findings.laws import FittedLaw
    from harness.findings.prediction import Prediction

_SHOWN = {"time": units.seconds, "memory": units.size, "flops": units.count, "depth": units.count}

_Found = tuple["FittedLaw", "Prediction"]

_EPILOG = """\
keys:
  impl                                    a layer of the run, or several: attention.fused,rnn.torch; all, if not given
  seq_len                                 the length, or several: 1024,4096; it need not have been measured
  d_model num_heads batch_size            as measured, if there is one value of each; need not have been either
  mode dtype device threads allocator mask real_share source_len
                                          which of the run's settings, where there are several; mode=forward

A pytest-benchmark JSON stands in for a run if its benchmarks say their seq_len in extra_info.

examples:
  python -m harness predict results/latest impl=attention.fused seq_len=8192,16384
  python -m harness predict results/latest seq_len=3000 d_model=256 num_heads=8 mode=train

exit status: 0 done; 2 usage, or a size of which the run cannot say anything
"""


def run(arguments: Sequence[str]) -> int:
    """Print the cost of a layer at each size."""
    parser = Parser("predict", "What a layer costs at a size that was not measured. Measures nothing.", _EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or a pytest-benchmark JSON")
    parser.add_argument("keys", nargs="*", metavar="key=value")
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that fits laws.
    from harness.cli.asked import SETTING, SIZES, asked, keys
    from harness.cli.read import lines_of
    from harness.findings.crossovers import headless
    from harness.findings.holdout import hold_out
    from harness.findings.laws import fit_laws
    from harness.report.said.held_out import sentences

    given = keys(options.keys, ("impl", *SIZES, "batch_size", *SETTING))
    lines = lines_of(options.run)
    laws = fit_laws(lines)
    sizes = asked(given, laws, options.run)
    wanted, without_heads = _wanted(given.get("impl"), laws, sizes[0], options.run), headless(lines)
    predicted = [(where, *_predict(wanted, where, without_heads)) for where in sizes]
    if not any(found for _, found, _ in predicted):
        raise UsageError(predicted[0][2][0])
    console = Console()
    for where, found, unknown in predicted:
        _show(found, where, [*unknown, *_warnings(found)], console)
    _say(sentences(hold_out(lines)), console)
    return DONE


def _wanted(text: str | None, laws: "Sequence[FittedLaw]", where: "Asked", run: Path) -> "list[FittedLaw]":
    """The laws of the requested layers in that setting, or of all layers if none is named.

    Raises UsageError for a layer without a law.
    """
    there = [law for law in laws if law.series.setting == where.setting]
    known = list(dict.fromkeys(law.series.impl for law in there))
    names = text.split(",") if text else known
    for name in names:
        if name not in known:
            raise UsageError(f"{run} has no '{name}'{did_you_mean(name, known)}; it has {', '.join(known)}")
    return [law for name in names for law in there if law.series.impl == name]


def _predict(
    laws: "Sequence[FittedLaw]", where: "Asked", without_heads: Collection[str]
) -> tuple[list[_Found], list[str]]:
    """Each law's prediction, and a sentence for each layer that has none at that size."""
    from harness.findings.prediction import predict_cost

    found: list[_Found] = []
    unknown: dict[str, None] = {}
    for law in laws:
        impl = law.series.impl
        # A layer without heads was measured with one head, and is predicted with one.
        heads = 1 if impl in without_heads else where.h
        try:
            found.append((law, predict_cost(law, where.n, where.d, heads, where.b)))
        except ValueError as error:
            unknown[f"{impl}: {error}"] = None
    return found, list(unknown)


def _warnings(found: Sequence[_Found]) -> list[str]:
    """The warnings of the predictions, equal ones merged."""
    said: dict[str, list[str]] = {}
    for law, prediction in found:
        for warning in prediction.warnings:
            said.setdefault(f"{law.series.impl}: {warning}", []).append(law.series.metric)
    return [f"{text} ({', '.join(metrics)})" for text, metrics in said.items()]


def _show(found: Sequence[_Found], where: "Asked", sentences: Sequence[str], console: Console) -> None:
    table = Table(title=f"At {where}", box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("impl", overflow="fold")
    table.add_column("cost")
    for heading in ("value", "with 95 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for law, prediction in found:
        one = law.series
        table.add_row(escape(printable(one.impl)), one.metric, *_cells(one.metric, prediction), _kind(prediction))
    console.print(table)
    _say(sentences, console)


def _say(sentences: Sequence[str], console: Console) -> None:
    for sentence in sentences:
        console.print(escape(printable(sentence)), highlight=False)


def _cells(metric: str, found: "Prediction") -> tuple[str, str]:
    shown = _SHOWN[metric]
    if found.lo == found.hi:
        return shown(found.value), ""
    if found.hi == float("inf"):
        return shown(found.value), "one trial"
    return shown(found.value), f"{shown(found.lo)} to {shown(found.hi)}"


def _kind(found: "Prediction") -> str:
    if found.measured:
        return "measured"
    return "exact law" if found.lo == found.hi else "predicted"
