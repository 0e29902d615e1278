"""Formulas for FLOPs and bytes that problem files declare, judged at each case that was measured."""

import ast
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.core.model.errors import VALUES, UsageError
from harness.core.model.own_axes import sizes_by_name
from harness.core.model.sweep_axes import AXES
from harness.core.results.columns import CaseResult
from harness.study.report.document import Section, grouped

from .formats import files_of, format_of
from .sizes import value_of
from .translations import translated


def declared_findings(config: Mapping[str, Any], lines: list[CaseResult]) -> Any:
    """The formulas that the problem files of a run declare, as `MoreFindings`; None if they declare nothing.

    A sentence has the verdict on one formula for one layer.
    """
    layers = grouped(lines, attrgetter("impl")).items()
    sentences = [sentence for layer, cases in layers for sentence in _sentences(layer, cases)]
    sentences.sort(reverse=True)  # refuted, not tested, confirmed
    if not sentences:
        return None
    return SimpleNamespace(
        title="Declared",
        kind="declared formula",
        sentences=sentences,
        tables={},
        section=lambda hardware: Section("Declared formulas", [sentences]),
    )


def _sentences(layer: str, cases: list[CaseResult]) -> Iterator[str]:
    name = layer.removeprefix("problem-file:")
    if name == layer:
        return
    file, _ = files_of(name)
    try:
        names, declared = format_of(file).axes(Path(file)).axis_of, translated(Path(file)).declared
    except UsageError as error:
        yield f"Not tested: what {layer} declares: {error}."
        return
    forward = [case for case in cases if case.mode == "forward"]
    if formula := declared.flops_formula:
        yield _verdict(f"flops_formula of {layer}", formula, "flops", names, forward)
    if formula := declared.bytes_formula:
        dtype = VALUES["dtype"].get(declared.precision.lower(), declared.precision)
        in_dtype = [case for case in forward if case.dtype == dtype]
        yield _verdict(
            f"bytes_formula (precision {declared.precision or 'unstated'}) of {layer}",
            formula,
            "min_bytes",
            names,
            in_dtype,
        )


def _verdict(name: str, formula: str, column: str, names: Mapping[str, str], cases: list[CaseResult]) -> str:
    """The verdict on a formula, and the reason. `names` has the axis of each size."""
    places = []
    for case in cases:
        measured = getattr(case, column)
        if measured is None:
            continue
        sizes = {size: getattr(case, axis) for size, axis in names.items() if axis in AXES}
        sizes |= sizes_by_name(case.own_axes, case.options)
        places.append(", ".join(f"{size} = {value}" for size, value in sizes.items()))
        try:
            # Within brackets, a formula may have several lines.
            declared = value_of(ast.parse(f"({formula})", mode="eval").body, sizes)
        except (SyntaxError, ValueError, ArithmeticError, MemoryError, RecursionError):
            declared = None
        if declared is None:
            return f"Not tested: {name}: '{formula}' is no arithmetic of {', '.join(sizes)}."
        if declared != measured:
            return f"Refuted: {name}: it is {declared} at {places[-1]}, and {column} is {measured}."
    if len({*places}) < 2:
        return f"Not tested: {name}: it takes two sizes with {column}, mode=forward and, for bytes, its precision."
    return f"Confirmed: {name}: equal to {column} at {len({*places})} sizes, from {places[0]} to {places[-1]}."
