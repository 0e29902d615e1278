"""The commands `predict RUN impl=… seq_len=…` and `recommend RUN seq_len=…`, for sizes measured or not.

Both take a size and one of the run's settings. Neither measures anything.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness import formatting
from harness.cli import DONE
from harness.cli.options import Parser
from harness.errors import UsageError, did_you_mean
from harness.formatting import printable

if TYPE_CHECKING:
    from harness.analysis.fitted_laws import FittedLaw
    from harness.analysis.predict import Candidate, Cost, Prediction, Recommendation
    from harness.cli.size_request import SizeRequest


_SHOWN = {"time": formatting.seconds, "memory": formatting.size, "flops": formatting.count, "depth": formatting.count}

_Found = tuple["FittedLaw", "Prediction"]

_PREDICT_EPILOG = """\
keys:
  impl                                    a layer of the run, or several: attention.fused,rnn.torch; default: all
  seq_len                                 the length, or several: 1024,4096; it need not have been measured
  d_model num_heads batch_size            sizes that need not have been measured; default: the run's, if it has only one
  mode dtype device threads allocator mask padding_fraction kv_len
                                          choose the setting if the run has several; default: mode=forward

You can use a pytest-benchmark JSON instead of a run if its benchmarks give seq_len in extra_info.

examples:
  python -m harness predict results/latest impl=attention.fused seq_len=8192,16384
  python -m harness predict results/latest seq_len=3000 d_model=256 num_heads=8 mode=train

exit status: 0 done; 2 usage error, or the run allows no prediction at any of the sizes
"""


def run_predict(arguments: Sequence[str]) -> int:
    """Print the cost of a layer at each size."""
    parser = Parser(
        "predict", "Predict what a layer costs at a size that was not measured. Measures nothing.", _PREDICT_EPILOG
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or a pytest-benchmark JSON")
    parser.add_argument("keys", nargs="*", metavar="key=value")
    options = parser.parse_intermixed_args(arguments)
    from harness.analysis.crossovers import layers_without_heads
    from harness.analysis.fitted_laws import fit_laws
    from harness.analysis.predict import hold_out
    from harness.cli.size_request import SETTING, SIZES, lines_of_run, size_keys, sizes_requested
    from harness.report.text.laws import held_out_sentences

    given = size_keys(options.keys, ("impl", *SIZES, "batch_size", *SETTING))
    lines = lines_of_run(options.run)
    laws = fit_laws(lines)
    sizes = sizes_requested(given, laws, options.run)
    wanted, without_heads = _wanted_cases(given.get("impl"), laws, sizes[0], options.run), layers_without_heads(lines)
    predicted = [(where, *_predict(wanted, where, without_heads)) for where in sizes]
    if not any(found for _, found, _ in predicted):
        raise UsageError(predicted[0][2][0])
    console = Console()
    for where, found, unknown in predicted:
        _show_predictions(found, where, [*unknown, *_warnings(found)], console)
    _print_sentences(held_out_sentences(hold_out(lines)), console)
    return DONE


def _wanted_cases(text: str | None, laws: "Sequence[FittedLaw]", where: "SizeRequest", run: Path) -> "list[FittedLaw]":
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
    laws: "Sequence[FittedLaw]", where: "SizeRequest", without_heads: Collection[str]
) -> tuple[list[_Found], list[str]]:
    """Each law's prediction, and a sentence for each layer that has none at that size."""
    from harness.analysis.predict import predict_cost

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


def _show_predictions(
    found: Sequence[_Found], where: "SizeRequest", sentences: Sequence[str], console: Console
) -> None:
    table = Table(title=f"At {where}", box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("impl", overflow="fold")
    table.add_column("cost")
    for heading in ("value", "with 95 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for law, prediction in found:
        one = law.series
        table.add_row(
            escape(printable(one.impl)), one.metric, *_predict_cells(one.metric, prediction), _kind(prediction)
        )
    console.print(table)
    _print_sentences(sentences, console)


def _print_sentences(sentences: Sequence[str], console: Console) -> None:
    for sentence in sentences:
        console.print(escape(printable(sentence)), highlight=False)


def _predict_cells(metric: str, found: "Prediction") -> tuple[str, str]:
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


_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
# An interval that reaches further than this factor to either side is too wide to print its ends.
_GUESS = 100

_RECOMMEND_EPILOG = """\
keys:
  seq_len                                 the length, or several: 1024,4096; it need not have been measured
  d_model num_heads batch_size            sizes that need not have been measured; default: the run's, if it has only one
  memory=8GiB                             leave out layers that may need more, beyond weights and inputs
  mode dtype device threads allocator mask padding_fraction kv_len
                                          choose the setting if the run has several; default: mode=forward

You can use a pytest-benchmark JSON instead of a run if its benchmarks give seq_len in extra_info.

examples:
  python -m harness recommend results/latest seq_len=4096 d_model=512 num_heads=8
  python -m harness recommend results/latest seq_len=1024 d_model=256 num_heads=4 memory=64MiB mode=train

exit status: 0 done; 2 usage error, or no layer fits
"""


def run_recommend(arguments: Sequence[str]) -> int:
    """Print the recommended layer at each size."""
    parser = Parser(
        "recommend",
        "Recommend a layer for a size: how much faster it is, and how sure. Measures nothing.",
        _RECOMMEND_EPILOG,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or a pytest-benchmark JSON")
    parser.add_argument("keys", nargs="*", metavar="key=value")
    options = parser.parse_intermixed_args(arguments)
    from harness.analysis.fitted_laws import fit_laws
    from harness.analysis.predict import predict_cost, recommend
    from harness.cli.size_request import SETTING, SIZES, lines_of_run, size_keys, sizes_requested

    given = size_keys(options.keys, (*SIZES, "batch_size", "memory", *SETTING))
    memory = _bytes(given["memory"]) if "memory" in given else None
    lines = lines_of_run(options.run)
    laws = fit_laws(lines)
    sizes = sizes_requested(given, laws, options.run)
    console, refused = Console(), []
    for where in sizes:
        found = recommend(lines, laws, where.setting, where.size, memory, predict_cost)
        if reason := _refusal(found, memory):
            refused.append(f"At {where}: {reason}." if len(sizes) > 1 else reason)
        else:
            _show_recommendation(found, where, memory, console)
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
            f"no layer is sure to fit into memory={formatting.size(memory)}: {least.impl} needs least, "
            f"up to {formatting.size(least.memory.hi if least.memory else 0.0)}"
        )
    return f"no prediction is possible there: {found.unknown[0][0]}: {found.unknown[0][1]}"


def _show_recommendation(found: "Recommendation", where: "SizeRequest", memory: int | None, console: Console) -> None:
    for sentence in recommend_sentences(found, where, memory):
        console.print(escape(printable(sentence)), highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("impl", overflow="fold")
    for heading in ("time", "between", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for one in found.ranked:
        table.add_row(
            escape(printable(one.impl)), *_recommend_cells(one), "measured" if one.time.measured else "predicted"
        )
    console.print(table)
    for warning in recommend_warnings(found):
        console.print(escape(printable(warning)), highlight=False)


def recommend_sentences(found: "Recommendation", where: "SizeRequest", memory: int | None) -> list[str]:
    """The recommendation in words."""
    first = found.ranked[0]
    said = [f"Use {first.impl} at {where}: {formatting.seconds(first.time.value)} a call{_between(first.time)}."]
    if found.share is None:
        said.append("It is the only one to choose from.")
    elif found.ratio is not None and found.ratio_lo is not None and found.ratio_hi is not None:
        known = found.ratio_hi < _GUESS * found.ratio and found.ratio < _GUESS * found.ratio_lo
        reach = f" ({found.ratio_lo:.2f} to {found.ratio_hi:.2f})" if known else ""
        said.append(
            f"{found.ratio:.2f} times as fast as {found.ranked[1].impl}{reach}; {found.how_sure}: the fastest in "
            f"{100 * found.share:.0f} of 100 draws from the intervals of all layers."
        )
    for one in found.too_large:
        if one.memory is not None and memory is not None:
            said.append(
                f"Left out: {one.impl}, which may need {formatting.size(one.memory.hi)}, "
                f"more than {formatting.size(memory)}."
            )
    return said + [f"Left out: {impl}: {why}." for impl, why in found.unknown]


def recommend_warnings(found: "Recommendation") -> list[str]:
    """The warnings of the predictions, each once."""
    said: dict[str, list[str]] = {}
    for one in found.ranked:
        for what, cost in (("time", one.time), ("memory", one.memory)):
            for warning in cost.warnings if cost is not None else ():
                said.setdefault(f"{what}: {warning}", []).append(one.impl)
        if one.memory is None:
            said.setdefault("its memory is not known", []).append(one.impl)
    return [f"{', '.join(impls)}: {warning}" for warning, impls in said.items()]


def _recommend_cells(one: "Candidate") -> tuple[str, str, str]:
    memory = formatting.size(one.memory.value) if one.memory is not None else ""
    return formatting.seconds(one.time.value), _between(one.time).strip(" ()"), memory


def _between(cost: "Cost") -> str:
    if cost.hi == float("inf"):
        return " (one trial)"
    if cost.hi > _GUESS * cost.value or cost.value > _GUESS * cost.lo:
        return f" (± {_GUESS} times or more)"
    return f" ({formatting.seconds(cost.lo)} to {formatting.seconds(cost.hi)})"
