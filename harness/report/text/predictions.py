"""Predictions and recommendations as tables and sentences."""

import math
from collections.abc import Iterable, Sequence

from harness import formatting
from harness.analysis.fitted_laws import FittedLaw, Prediction
from harness.analysis.predict import Recommendation, SizeRequest
from harness.report.document import Table

_SHOWN = {"time": formatting.seconds, "memory": formatting.size, "flops": formatting.count, "depth": formatting.count}
# An interval that reaches further than this factor to either side is too wide to print its ends.
_GUESS = 100


def predictions(
    where: SizeRequest, found: Sequence[tuple[FittedLaw, Prediction]], unknown: Iterable[str]
) -> list[Table | str]:
    """The predictions at a size, the layers without one, and the warnings, equal ones merged."""
    columns = {"impl": "layer", "cost": "", "value": "n", "with 95 %": "n", "": ""}
    rows = [(law.series.impl, law.series.metric, *_cells(law.series.metric, one)) for law, one in found]
    metrics_of: dict[str, list[str]] = {}
    for law, one in found:
        for warning in one.warnings:
            metrics_of.setdefault(f"{law.series.impl}: {warning}", []).append(law.series.metric)
    warnings = [f"{text} ({', '.join(metrics)})" for text, metrics in metrics_of.items()]
    return [f"At {where}:", Table(columns, rows), *unknown, *warnings]


def _cells(metric: str, found: Prediction) -> tuple[str, str, str]:
    shown = _SHOWN[metric]
    kind = "measured" if found.measured else "exact law" if found.lo == found.hi else "predicted"
    if found.lo == found.hi:
        return shown(found.value), "", kind
    between = "one trial" if found.hi == math.inf else f"{shown(found.lo)} to {shown(found.hi)}"
    return shown(found.value), between, kind


def no_recommendation(found: Recommendation, memory: int | None) -> str:
    """Why no layer can be recommended; empty if one can."""
    if found.ranked:
        return ""
    if found.too_large and memory is not None:
        needed, impl = min((one.memory.hi, one.impl) for one in found.too_large if one.memory)
        least = f"{impl} needs least, up to {formatting.size(needed)}"
        return f"no layer is sure to fit into memory={formatting.size(memory)}: {least}"
    return f"no prediction is possible there: {found.unknown[0][0]}: {found.unknown[0][1]}"


def recommendation(found: Recommendation, where: SizeRequest, memory: int | None) -> list[Table | str]:
    """The recommended layer in words, all layers by their predicted time, and the warnings, each once."""
    rows = []
    impls_of: dict[str, list[str]] = {}
    for one in found.ranked:
        needs = formatting.size(one.memory.value) if one.memory else ""
        kind = "measured" if one.time.measured else "predicted"
        rows.append((one.impl, formatting.seconds(one.time.value), _between(one.time), needs, kind))
        for what, cost in (("time", one.time), ("memory", one.memory)):
            for warning in cost.warnings if cost else ():
                impls_of.setdefault(f"{what}: {warning}", []).append(one.impl)
        if not one.memory:
            impls_of.setdefault("its memory is not known", []).append(one.impl)
    columns = {"impl": "layer", "time": "n", "between": "n", "memory": "n", "": ""}
    warnings = [f"{', '.join(impls)}: {warning}" for warning, impls in impls_of.items()]
    return [*_recommended(found, where, memory), Table(columns, rows), *warnings]


def _recommended(found: Recommendation, where: SizeRequest, memory: int | None) -> list[str]:
    first = found.ranked[0]
    text = [f"Use {first.impl} at {where}: {formatting.seconds(first.time.value)} a call ({_between(first.time)})."]
    if found.share is None or found.ratio is None:
        text.append("It is the only one to choose from.")
    else:
        value, lo, hi = found.ratio.value, found.ratio.lo, found.ratio.hi
        reach = f" ({lo:.2f} to {hi:.2f})" if hi < _GUESS * value and value < _GUESS * lo else ""
        text.append(
            f"{value:.2f} times as fast as {found.ranked[1].impl}{reach}; {found.how_sure}: the "
            f"fastest with probability {found.share:.2f}."
        )
    for one in found.too_large:
        if one.memory and memory is not None:
            needs = f"may need {formatting.size(one.memory.hi)}, more than {formatting.size(memory)}"
            text.append(f"Left out: {one.impl}, which {needs}.")
    return text + [f"Left out: {impl}: {why}." for impl, why in found.unknown]


def _between(cost: Prediction) -> str:
    if cost.hi == math.inf:
        return "one trial"
    if cost.hi > _GUESS * cost.value or cost.value > _GUESS * cost.lo:
        return f"± {_GUESS} times or more"
    return f"{formatting.seconds(cost.lo)} to {formatting.seconds(cost.hi)}"
