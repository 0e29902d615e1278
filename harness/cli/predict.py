"""The commands `predict RUN impl=… seq_len=…` and `recommend RUN seq_len=…`, for sizes measured or not.

Both take a size and one of the run's settings. Neither measures anything.
"""

import argparse
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.core.config.key_value_options import Key, bytes_in, read_keys, whole
from harness.core.model import formatting
from harness.core.model.errors import UsageError, notify
from harness.core.model.file_io import read_text
from harness.core.model.sweep_axes import SETTINGS
from harness.core.results.columns import CaseResult
from harness.core.results.stored_run import read_run_directory
from harness.study.laws import predict
from harness.study.laws.fitted_laws import SAYS_NOTHING, FittedLaw, Prediction, fit_laws
from harness.study.laws.predict import Recommendation, SizeRequest
from harness.study.laws.roofline import roofs, with_suspects
from harness.study.laws.smoothing import with_times_in_law
from harness.study.report.document import Table, show
from harness.study.report.text.cost_models import held_out_sentences

from .commands import DONE

# The keys of both commands, beside their own.
_KEYS = (
    Key("seq_len", whole, many=True),
    *(Key(name, whole) for name in ("d_model", "num_heads", "batch_size")),
    *(Key(name) for name in SETTINGS if name != "kv_len"),
    Key("kv_len", whole, least=0),
)
_MEMORY = Key(
    "memory", bytes_in, most=2**63, takes=f"bytes from 1 on, or a number with {', '.join(formatting.BYTE_UNITS)}"
)
_MIX = Key("mix")
_WEIGHT = Key("weight", float, least=1e-9, takes="a number above 0, the share of calls of this size")


def _read(options: argparse.Namespace, *keys: Key) -> tuple[dict[str, Any], list[CaseResult], list[FittedLaw]]:
    """The values of the keys, and the run's lines and laws. Each unreadable place of the run is a line on stderr.

    Raises UsageError for an invalid key, and if `run` is not a run.
    """
    values = read_keys(options.keys, (*keys, *_KEYS))
    stored = read_run_directory(options.run)
    notify(*stored.notices)
    lines = with_suspects(stored.lines, roofs(stored.machine))
    laws = fit_laws(lines)
    return values, with_times_in_law(lines, laws), laws


def _sizes(values: Mapping[str, Any], laws: Sequence[FittedLaw], run: object) -> list[SizeRequest]:
    """The requested sizes. If the run has several modes and none is given, a line on stderr says which one is taken."""
    sizes = predict.sizes_requested(values, laws, run)
    taken = sizes[0].setting.mode
    others = {law.series.setting.mode for law in laws if law.series.metric == "time"} - {taken}
    if others and values["mode"] is None:
        notify(f"mode={taken} is taken: the run also has mode={','.join(sorted(others))}")
    return sizes


def _mix(values: Mapping[str, Any], laws: Sequence[FittedLaw], run: object) -> predict.Mix:
    """The sizes of a mix with their weights, in a text such as `64:0.94,4096:0.06` or `decode:0.94,forward:0.06`.

    The name of a CSV file has a column `weight`, and others that are keys. Raises UsageError for any other text.
    """
    mix = values["mix"]
    if mix.endswith(".csv"):
        try:
            rows = list(csv.DictReader(read_text(Path(mix)).splitlines()))
        except (OSError, ValueError, csv.Error) as error:
            raise UsageError(f"mix={mix} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    else:
        pairs = [part.partition(":") for part in mix.split(",")]
        rows = [{"seq_len" if size[:1].isdigit() else "mode": size, "weight": weight} for size, _, weight in pairs]
    parts = list[tuple[float, SizeRequest]]()
    for row in rows:
        of_part = read_keys([f"{name}={text}" for name, text in row.items()], (_WEIGHT, *_KEYS))
        stated = {name: value for name, value in of_part.items() if value is not None}
        if twice := [name for name in stated if values.get(name)]:
            raise UsageError(f"mix={mix} has {twice[0]} too: give it once")
        read_sizes = predict.sizes_requested if parts else _sizes  # which says once which mode is taken
        sizes = read_sizes({**values, **stated}, laws, run)
        if len(sizes) > 1 or "weight" not in stated:
            raise UsageError(f"mix={mix}: each part takes one seq_len and a weight, as mix=64:0.94,4096:0.06")
        parts.append((stated["weight"], sizes[0]))
    if not parts:
        raise UsageError(f"mix={mix} has no part: write a line for each size below the names of the columns")
    return parts


def run_predict(options: argparse.Namespace) -> int:
    """Print the cost of a layer at each size."""
    values, lines, laws = _read(options, Key("impl", many=True))
    sizes = _sizes(values, laws, options.run)
    requested = predict.laws_requested(values["impl"], laws, sizes[0].setting, options.run)
    predicted = [(where, *predict.predict_each(requested, where, lines)) for where in sizes]
    if not any(of_laws for _, of_laws, _ in predicted):
        raise UsageError(next(map(": ".join, predicted[0][2].items())))
    parts = [part for at_size in predicted for part in predictions(*at_size)]
    show([*parts, *held_out_sentences(predict.hold_out(lines))], Console())
    return DONE


def run_recommend(options: argparse.Namespace) -> int:
    """Print the recommended layer at each size, or over a mix of sizes."""
    values, lines, laws = _read(options, _MEMORY, _MIX)
    memory, mix = values["memory"], values["mix"]
    if mix:
        asked = {f"mix={mix}": _mix(values, laws, options.run)}
    else:
        asked = {str(where): [(1.0, where)] for where in _sizes(values, laws, options.run)}
    parts = list[Table | str]()
    refused = []
    for where, sizes in asked.items():
        recommended = predict.recommend(lines, laws, sizes, memory)
        if reason := no_recommendation(recommended, memory):
            refused.append(f"At {where}: {reason}.")
        else:
            parts += recommendation(recommended, where, memory)
    if not parts:
        raise UsageError(reason)
    show([*parts, *refused], Console())
    return DONE


_SHOWN = {"time": formatting.seconds, "memory": formatting.size, "flops": formatting.count, "depth": formatting.count}
_TOO_UNCERTAIN = "too uncertain to predict"
# A layer that is the fastest with a lower probability is not recommended.
_LEAST_SHARE = 0.5


def predictions(
    where: SizeRequest, of_laws: Sequence[tuple[FittedLaw, Prediction]], unknown: Mapping[str, str]
) -> list[Table | str]:
    """The predictions at a size, the layers without one or beyond their limits, and the warnings, equal ones merged."""
    rows = []
    metrics_of = dict[str, list[str]]()
    for law, prediction in of_laws:
        impl, metric = law.series.impl, law.series.metric
        rows.append((impl, metric, *_cells(metric, prediction)))
        for warning in prediction.warnings:
            metrics_of.setdefault(f"{impl}: {warning}", []).append(metric)
    warnings = [f"{text} ({', '.join(metrics)})" for text, metrics in metrics_of.items()]
    table = Table({"impl": "layer", "cost": "", "value": "n", "with 95 %": "n", "": ""}, rows)
    return [f"At {where}:", table, *map(": ".join, unknown.items()), *warnings]


def _cells(metric: str, cost: Prediction) -> tuple[str, str, str]:
    shown = _SHOWN[metric]
    kind = cost.basis or ("measured" if cost.measured else "predicted")
    if cost.lo == cost.hi:
        return shown(cost.value), "", kind
    return "" if cost.too_uncertain else shown(cost.value), _between(cost, shown), kind


def no_recommendation(recommended: Recommendation, memory: int | None) -> str:
    """Why no layer can be recommended; empty if one can."""
    if recommended.ranked:
        return ""
    if recommended.too_large and memory is not None:
        needed, impl = min((layer.memory.hi, layer.impl) for layer in recommended.too_large if layer.memory)
        return (
            f"no layer is sure to fit into memory={formatting.size(memory)}: {impl} needs least, up to "
            f"{formatting.size(needed)}"
        )
    return f"no prediction is possible there: {recommended.unknown[0][0]}: {recommended.unknown[0][1]}"


def recommendation(recommended: Recommendation, where: str, memory: int | None) -> list[Table | str]:
    """The recommended layer in words, all layers by their predicted time, and the warnings, each once.

    A layer beside others has the probability that it is the fastest.
    """
    rows = []
    impls_of = dict[str, list[str]]()
    for at, layer in enumerate(recommended.ranked):
        warnings = [f"time: {warning}" for warning in layer.time.warnings]
        if layer.memory:
            remarks = (*layer.memory.warnings, layer.memory.basis)
            warnings += [f"memory: {remark}" for remark in remarks if remark]
        else:
            warnings.append("no law of memory")
        for warning in warnings:
            impls_of.setdefault(warning, []).append(layer.impl)
        needs = formatting.size(layer.memory.value) if layer.memory else ""
        share = f"{recommended.shares[at]:.2f}" if recommended.shares else ""
        value, between, kind = _cells("time", layer.time)
        rows.append((layer.impl, value, between, share, needs, kind))
    columns = {"impl": "layer", "time": "n", "between": "n", "P(fastest)": "n", "memory": "n", "": ""}
    table = Table(columns, rows, title="by expected time" if len(rows) > 1 else "").without_empty("P(fastest)")
    warnings = [f"{', '.join(impls)}: {warning}" for warning, impls in impls_of.items()]
    return [*_recommended(recommended, where, memory), table, *warnings, *recommended.unlike]


def _recommended(recommended: Recommendation, where: str, memory: int | None) -> list[str]:
    first, share, ratio = recommended.ranked[0], recommended.share, recommended.ratio
    text = [
        f"Use {first.impl} at {where}: {formatting.seconds(first.time.value)} a call "
        f"({_between(first.time, formatting.seconds)})."
    ]
    if first.time.too_uncertain:
        text = [f"No recommendation at {where}: every layer's time is {_TOO_UNCERTAIN}. Measure closer sizes."]
    elif share is None or ratio is None:
        text.append("It is the only one to choose from.")
    elif share < _LEAST_SHARE:
        text = [
            f"No clear recommendation at {where}: {first.impl} has the lowest expected time, and is the fastest with "
            f"probability {share:.2f}."
        ]
    else:
        second = recommended.ranked[1]
        faster = f"{ratio.value:.2f} times as fast as {second.impl}"
        if ratio.hi < SAYS_NOTHING * ratio.value < SAYS_NOTHING**2 * ratio.lo:
            faster += f" ({ratio.lo:.2f} to {ratio.hi:.2f})"
        if second.time.too_uncertain:
            faster = f"The time of {second.impl} is {_TOO_UNCERTAIN}"
        but = ", apart from the remarks below" if recommended.is_open else ""
        text.append(f"{faster}; {recommended.how_sure}: the fastest with probability {share:.2f}{but}.")
    for layer in recommended.too_large:
        if layer.memory and memory is not None:
            text.append(
                f"Left out: {layer.impl}, which may need {formatting.size(layer.memory.hi)}, more than "
                f"{formatting.size(memory)}."
            )
    return text + [f"Left out: {impl}: {why}." for impl, why in recommended.unknown]


def _between(cost: Prediction, shown: formatting.NumberText) -> str:
    if cost.too_uncertain:
        return _TOO_UNCERTAIN
    return "one trial" if cost.hi == float("inf") else f"{shown(cost.lo)} to {shown(cost.hi)}"
