"""A case: one point of the grid, and the grid they come from."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

MODES = ("forward", "train", "backward", "decode")
DTYPES = ("float32", "bfloat16", "float16", "float64")
DEVICES = ("cpu", "cuda")
ALLOCATORS = ("default", "steady", "fresh")
MASKS = ("none", "causal", "padding")
# How a case ends that has no numbers.
FAILURES = ("oom", "timeout", "killed", "unsupported", "wrong", "error")
# Axes along which a sweep can go on by itself, doubling.
GROWING = ("seq_len", "d_model", "batch_size")
# Several blocks of any blocked kernel of ours; and a float64 reference of it is still a matter of milliseconds.
_SMALL_SEQ_LEN = 256
_SMALL_BATCH = 2


@dataclass(frozen=True, order=True)
class Case:
    """What is measured. Sizes: n = `seq_len`, d = `d_model`, h = `num_heads`, b = `batch_size`.

    `mode` is `forward` (no gradients), `train` (forward and backward), `backward` (backward alone, of a forward pass
    made outside the clock) or `decode` (one token more, with n in all). A layer without heads has `num_heads` 1.
    `threads` is the number of CPU threads torch may use. `allocator` says how the C library treats large blocks: as it
    likes (`default`), kept for good (`steady`) or new at every call (`fresh`). `mask` says which tokens one may look
    at: all (`none`), those before (`causal`), or all that are no padding (`padding`), of which there are `real_share`
    over the batch; without padding that is 1. `source_len` is the length of a source that is attended to, 0 for
    none: a layer then attends to its own input.
    """

    impl: str
    seq_len: int
    d_model: int
    num_heads: int
    batch_size: int = 1
    mode: str = "forward"
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 1
    allocator: str = "default"
    mask: str = "none"
    real_share: float = 1.0
    source_len: int = 0

    @property
    def key(self) -> str:
        """The overrides that measure this case again: unique, stable, and to be pasted after `sweep`."""
        return " ".join(f"{name}={value}" for name, value in self.as_dict().items())

    @property
    def tokens(self) -> int:
        """Tokens that one call processes."""
        return self.batch_size * (1 if self.mode == "decode" else self.seq_len)

    def small(self) -> "Case":
        """The case that stands for its kind where correctness is at stake: n as `_small`, b at most 2."""
        return replace(
            self,
            seq_len=_small(self.seq_len),
            source_len=_small(self.source_len),
            batch_size=min(self.batch_size, _SMALL_BATCH),
        )

    def at(self, axis: str, size: int) -> "Case":
        """The same at another size along an axis."""
        changed: dict[str, Any] = {axis: size}
        return replace(self, **changed)

    def __str__(self) -> str:
        source = f" m={self.source_len}" if self.source_len else ""
        mask = f" {self.mask}" if self.mask != "none" else ""
        return f"{self.impl} n={self.seq_len}{source} d={self.d_model} h={self.num_heads}{mask}"

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as they stand in a row."""
        # A row asks twice, and `dataclasses.asdict` copies.
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Case":
        """The case that `as_dict` wrote, now or before there were all of today's axes: these have their defaults.

        Raises KeyError for a field that has none and is missing.
        """
        return cls(**{name: data[name] if name in data or name not in DEFAULTS else DEFAULTS[name] for name in AXES})


def _small(length: int) -> int:
    """The largest length that is small, and as often divisible by two.

    So a kernel's last tile is as full or as ragged as at the length itself, and one that takes full tiles alone can be
    asked.
    """
    if length <= _SMALL_SEQ_LEN:
        return length
    tile = min(length & -length, _SMALL_SEQ_LEN)
    return tile * ((_SMALL_SEQ_LEN // tile - 1) | 1)  # an odd number of them: 255, 254, 252, 248, … 256


# Axes that are no sizes: two cases that differ along one of them are never held against each other.
SETTINGS = ("mode", "dtype", "device", "threads", "allocator", "mask", "real_share", "source_len")
AXES: tuple[str, ...] = tuple(field.name for field in fields(Case))
# What an axis is where nothing is said of it.
DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Case) if field.default is not MISSING}


def grid(
    axes: Mapping[str, Sequence[Any]],
    has_heads: Callable[[str], bool],
    together: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Case]:
    """Every combination of the axes' values as `collapsed`, without repeats.

    `together` are points along some of the axes, whose values are combined with those of the others alone.
    """
    seen = set()
    for point in together or [{}]:
        values = {**axes, **{name: (value,) for name, value in point.items()}}
        for combination in itertools.product(*(values[name] for name in AXES)):
            case = collapsed(Case(*combination), has_heads)
            if case not in seen:
                seen.add(case)
                yield case


def collapsed(case: Case, has_heads: Callable[[str], bool]) -> Case:
    """The one of all cases that are the same.

    A layer without heads is one case and not one a head count; a GPU's memory is not the C library's, and is one
    case whatever the allocator; a token that is decoded comes after all others, and sees all of a source, and is one
    case under no mask or a causal one; and without padding all tokens are real.
    """
    if not has_heads(case.impl):
        case = replace(case, num_heads=1)
    if case.device == "cuda":
        case = replace(case, allocator="default")
    if case.mode == "decode" and case.mask != "padding":
        case = replace(case, mask="none" if case.source_len else "causal")
    if case.mask != "padding":
        case = replace(case, real_share=1.0)
    return case
