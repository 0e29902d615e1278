"""The cases of a sweep: the grid of its axes, without equivalent cases."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .sweep_axes import AXES, DEFAULTS, EQUAL, OF_GPUS, Case


def grid(
    axes: Mapping[str, Sequence[Any]], has_heads: Callable[[str], bool], points: Sequence[Mapping[str, Any]] = ()
) -> Iterator[Case]:
    """Every combination of the axes' values, `collapsed` and without repeats.

    `points` are along some of the axes. Each point is combined with the values of the other axes only.
    """
    seen = set()
    for point in points or [{}]:
        values = {**axes, **{name: (value,) for name, value in point.items()}}
        for combination in itertools.product(*(values[name] for name in AXES)):
            case = collapsed(Case(*combination), has_heads)
            if case not in seen:
                seen.add(case)
                yield case


# The axes of a layer's constructor, for a layer without heads.
_OF_NO_HEADS = {name: DEFAULTS.get(name, 1) for name, axis in AXES.items() if axis.of_layer}


def collapsed(case: Case, has_heads: Callable[[str], bool]) -> Case:
    """The canonical form of a case: equivalent cases collapse to the same one.

    A layer without heads is one case, not one per head count. The C library does not manage a GPU's memory, so the
    allocator makes no difference there. The CPU's cache and calls are as they are. A decoded token comes after all
    others and sees all of a source, so no mask and a causal mask are one case. Without the mask `padding`, nothing is
    padded. A batch of one sequence has one length. Unequal lengths without a mask are the mask `padding`.
    """
    if not has_heads(case.impl):
        case = replace(case, **_OF_NO_HEADS)
    case = replace(case, **OF_GPUS) if case.device == "cpu" else replace(case, allocator="default")
    if case.batch_size == 1:
        case = replace(case, lengths=EQUAL)
    if case.lengths != EQUAL and (case.mask == "none" or case.mode == "decode"):
        case = replace(case, mask="padding")
    if case.mode == "decode" and case.mask != "padding":
        case = replace(case, mask="none" if case.kv_len else "causal")
    if case.mask != "padding" or case.lengths != EQUAL:
        case = replace(case, padding_fraction=0.0)
    return case


def kinds_of(cases: Iterable[Case]) -> dict[Case, list[Case]]:
    """The cases by the small case that is verified in their place, in their order."""
    kinds = dict[Case, list[Case]]()
    for case in sorted(cases):
        kinds.setdefault(case.small(), []).append(case)
    return kinds
