"""The lengths of the sequences in a batch: the axis `lengths`.

equal        every sequence has n tokens; with `mask=padding`, `padding_fraction` of the batch is padding
zipf         the i-th longest sequence has n/i tokens (Zipf 1949, the law of rank and size), in a shuffled order
zipf:SEED    the same in another order
FILE         one length in each line; the first b of them, scaled so that the longest is n. If one in the file is 0,
             an empty sequence, a smaller batch has one before its end

The shape of such a batch is the same at every n, so its cost can be compared between sizes.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from .errors import UsageError, nearest
from .polynomial import Polynomial
from .sweep_axes import EQUAL, Case

ZIPF = "zipf"
# How lengths reach a layer.
PADDED, PACKED = "padded", "packed"


def check_lengths(lengths: str) -> None:
    """Raise UsageError unless `lengths` is a value of the axis: a known word, or a file that can be read."""
    name, _, seed = lengths.partition(":")
    if lengths not in (EQUAL, ZIPF) and not (name == ZIPF and seed.isdecimal()):
        _read(lengths)


def lengths_of(lengths: str, batch_size: int, longest: int) -> list[int]:
    """The length of each sequence in a batch, the longest being `longest`. Raises UsageError as `check_lengths`."""
    if lengths == EQUAL:
        return [longest] * batch_size
    name, _, seed = lengths.partition(":")
    if name == ZIPF:
        lengths_by_rank = [_at_least_1(longest / rank) for rank in range(1, batch_size + 1)]
        random.Random(int(seed or 0)).shuffle(lengths_by_rank)
        return lengths_by_rank
    read = _read(lengths)
    batch = [read[place % len(read)] for place in range(batch_size)]
    if 0 in read and 1 < batch_size < len(read) and 0 not in batch[:-1]:  # as in the small batch that is verified
        batch[:2] = 0, max(batch)
    if not any(batch):
        raise UsageError(f"lengths={lengths}: the first {batch_size} are 0: begin with a longer one")
    return [_at_least_1(length * longest / max(batch)) if length else 0 for length in batch]


def digests_of_files(values: Iterable[str]) -> dict[str, str]:
    """A digest of the lengths in each file among the values of the axis."""
    files = [value for value in values if value != EQUAL and value.partition(":")[0] != ZIPF]
    return {file: hashlib.sha256(as_text(_read(file)).encode()).hexdigest()[:12] for file in files}


def _at_least_1(length: float) -> int:
    return max(1, int(length + 0.5))


def _read(file: str) -> list[int]:
    """The lengths in a file. Empty lines are left out."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        shown = file[:80] if file.isprintable() else ascii(file[:80])
        near = nearest(file[:80], (EQUAL, ZIPF))
        meant = f"; did you mean '{near}'?" if near else ""
        what = f"lengths={shown} is no file that can be read: give {EQUAL}, {ZIPF}, {ZIPF}:SEED or a file of lengths"
        raise UsageError(f"{what}{meant}") from error
    numbers = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        if not (text.isascii() and text.isdecimal() and int(text[:20]) <= 10**9):
            raise UsageError(f"lengths={file}: line {number} is {text[:40]!r}: give one length from 0 on in each line")
        numbers.append(int(text))
    if not any(numbers):
        raise UsageError(f"lengths={file} is empty, or all 0: give one length in each line")
    return numbers


def real_lengths(case: Case, length: int = 0) -> list[int]:
    """How many of `length` tokens, by default the case's n, are real, for each sequence of a case's batch.

    With the mask `padding` and equal lengths, they are spread evenly and leave `padding_fraction` of the batch as
    padding. A single sequence has that share.
    """
    length = length or case.seq_len
    if case.lengths != EQUAL or case.mask != "padding":
        return lengths_of(case.lengths, case.batch_size, length)
    b, share = case.batch_size, round(1.0 - case.padding_fraction, 12)
    half = min(share, 1 - share) if b > 1 else 0.0
    shares = [share + half * (2 * i / max(b - 1, 1) - 1) for i in range(b)]
    return [min(length, _at_least_1(length * each)) for each in shares]


def is_summed(lengths_as: str | None) -> bool:
    """Whether the work of a call is that of real tokens: a layer that gets a padded batch computes on padding too."""
    return lengths_as not in (None, PADDED)


def as_text(lengths: Sequence[int]) -> str:
    """The lengths as a cell of a table: `512,256,171`."""
    return ",".join(map(str, lengths))


def claimed_flops(claim: Polynomial, lengths: Sequence[int], d_model: int, num_heads: int) -> int | None:
    """The FLOPs that a claim for one sequence gives for sequences of these lengths: a sum, as Σ nᵢ².

    None if the claim gives no whole number, as `4n²d/w` may where w does not divide.
    """
    counts = Counter(filter(None, lengths)).items()
    total = sum(number * claim.value(length, d_model, num_heads) for length, number in counts)
    return int(total) if total.denominator == 1 else None
