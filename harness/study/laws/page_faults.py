"""What a call pays for new memory: the memory blocks that it allocates, at any size, and the cost of their page faults.

The C library maps blocks above a threshold anew at every call, and each of their pages faults (mallopt(3),
M_MMAP_THRESHOLD). Sizes below the threshold pay nothing and so cannot tell this cost. It therefore is not fitted: the
price of a page fault is measured, and the blocks are counted. Each block is a product of powers of n, d, h, b and a
layer's own letters.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from harness.core.model.polynomial import AXES, Term
from harness.core.results.columns import RECORDED_SIZES

from .laws import Floats, Sizes, varying_axes

PAGE_BYTES = 4096
# The price of a page fault is known to this share at best. Threads that fault at the same time wait for each other, and
# the price follows the state of the machine.
LEAST_ERROR = 0.15
# The share of the pages that fault in blocks of `KEPT_FROM_BYTES` and more that are not mapped. It depends on what lies
# above them in the heap: between these ends, and `KEPT_SHARE` on average.
KEPT_FROM_BYTES = 2**20
KEPT_SHARE, MOST_KEPT_SHARE = 0.2, 0.5
# Blocks without a law may be this share of the mapped bytes.
_MOST_MISSED = 0.1

_POWERS = {"n": (0, 1, 2), "d": (0, 1, 2), "h": (0, 1, -1), "b": (0, 1)}
_OWN_POWERS = (0, 1)
_NUMBERS = (Term(), Term(h=1), Term(b=1), Term(h=1, b=1), Term(n=1))


class MemoryBlock(NamedTuple):
    """Blocks of `bytes_each · size` bytes each, of which a call allocates `times · number`."""

    bytes_each: float
    size: Term
    times: float
    number: Term


def memory_block_laws(sizes: Sizes, blocks: Sequence[Mapping[int, int]]) -> tuple[MemoryBlock, ...]:
    """Find the blocks that every call allocates, from the number of blocks of each size in bytes at each point.

    A block's size is a product of powers with a constant that gives a block at every point. If a point lists
    `RECORDED_SIZES`, smaller ones may be missing there. Blocks that are no such product, as a kernel's workspace, are
    left out.
    """
    axes = varying_axes(sizes)
    every = dict.fromkeys((*AXES, *axes))
    terms = [
        Term.of(dict(zip(every, powers, strict=True)))
        for powers in product(*(_POWERS.get(axis, _OWN_POWERS) if axis in axes else (0,) for axis in every))
    ]
    values = {term: term(sizes) for term in terms}
    left = [dict(of_point) for of_point in blocks]
    smallest = [min(of_point) if len(of_point) >= RECORDED_SIZES else 0 for of_point in blocks]
    largest = max(range(len(left)), key=lambda i: max(left[i], default=0))
    found: list[MemoryBlock] = []
    for size in sorted(left[largest], reverse=True):
        for term in terms:
            each = size / float(values[term][largest])
            expected = np.rint(each * values[term]).tolist()
            if all(
                one in of_point or one < least for one, of_point, least in zip(expected, left, smallest, strict=True)
            ):
                known = [i for i, one in enumerate(expected) if one in left[i]]
                times, number = _number(sizes, known, [left[i][int(expected[i])] for i in known])
                found.append(MemoryBlock(each, term, times, number))
                break
    return tuple(found)


def _number(sizes: Sizes, known: Sequence[int], counts: Sequence[int]) -> tuple[float, Term]:
    """The number of blocks of one size as a constant times a product, which most points have.

    A point has more if blocks of other kinds have the same size there.
    """
    fits = []
    for number in _NUMBERS:
        each = np.array(counts) / number(sizes)[list(known)]
        alike = int((each == each.min()).sum())
        fits.append((alike, float(each.min()), number))
    _, times, number = max(fits, key=itemgetter(0))
    return times, number


@dataclass(frozen=True)
class PageFaults:
    """The cost of new memory at any size: blocks of `mapped_from` bytes and more fault at every call.

    A page costs `page_s` seconds, known with the relative standard error `error`. `kept_to` is the largest measured
    block that is not mapped: larger ones that are not mapped either may fault too. Whether any measured size has mapped
    blocks is `paid`.
    """

    page_s: float
    error: float
    mapped_from: float
    blocks: tuple[MemoryBlock, ...]
    kept_to: float = math.inf
    paid: bool = False

    def __call__(self, sizes: Sizes) -> Floats:
        """Return the seconds for mapped blocks at each size, shape (points,)."""
        return self._seconds(sizes, self.mapped_from, math.inf).sum(axis=0)

    def exponents(self, axis: str, sizes: Sizes) -> Floats:
        """Return d log(seconds for mapped blocks) / d log axis at each size, shape (points,); 0 without any."""
        seconds = self._seconds(sizes, self.mapped_from, math.inf)
        powers = np.array([block.size.power(axis) + block.number.power(axis) for block in self.blocks])
        total = seconds.sum(axis=0)
        return np.divide(powers @ seconds, total, out=np.zeros(len(sizes)), where=total > 0)

    def unmeasured(self, sizes: Sizes) -> tuple[Floats, Floats]:
        """Return the seconds for blocks that are not mapped but larger than any measured: expected and most."""
        every = self._seconds(sizes, max(self.kept_to + 1, KEPT_FROM_BYTES), self.mapped_from).sum(axis=0)
        return KEPT_SHARE * every, MOST_KEPT_SHARE * every

    def largest_memory_block(self, sizes: Sizes) -> Floats:
        """Return the bytes of the largest memory block that a call allocates at each size, shape (points,)."""
        return np.max([one.bytes_each * one.size(sizes) for one in self.blocks], axis=0)

    def _seconds(self, sizes: Sizes, least: float, below: float) -> Floats:
        """The seconds for all pages of blocks with at least `least` bytes and fewer than `below`, (blocks, points)."""
        found = np.zeros((len(self.blocks), len(sizes)))
        for row, block in zip(found, self.blocks, strict=True):
            each = block.bytes_each * block.size(sizes)
            number = block.times * block.number(sizes)
            row += np.where((each >= least) & (each < below), each * number, 0.0) * self.page_s / PAGE_BYTES
        return found


def page_faults(
    sizes: Sizes,
    blocks: Sequence[Mapping[int, int]],
    mapped: Sequence[int],
    price: tuple[float, float],
    mapped_from: float | None,
) -> PageFaults | None:
    """Return the cost of new memory from the blocks and the `mapped` bytes at each point.

    The `price` of a page fault is in seconds, with its relative standard error. Blocks of `mapped_from` bytes and more
    are mapped; None means that the allocator keeps all memory. Returns None if no block has a law, and if the laws do
    not give the mapped bytes at every point.
    """
    error, laws = math.hypot(LEAST_ERROR, price[1]), memory_block_laws(sizes, blocks)
    found = PageFaults(price[0], error, math.inf if mapped_from is None else mapped_from, laws)
    if not found.blocks or price[0] <= 0:
        return None
    if not np.allclose(found(sizes) * PAGE_BYTES / price[0], mapped, rtol=_MOST_MISSED):
        return None
    if mapped_from is None:
        return found
    kept = (max((size for size in of_point if size < mapped_from), default=0) for of_point in blocks)
    return replace(found, kept_to=max(kept, default=0), paid=any(mapped))
