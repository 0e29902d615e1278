"""A case, which is one point of a grid, and the grid itself."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from harness.former_names import FORMER, present

MODES = ("forward", "train", "backward", "decode")
DTYPES = ("float32", "bfloat16", "float16", "float64")
DEVICES = ("cpu", "cuda")
ALLOCATORS = ("default", "steady", "fresh")
MASKS = ("none", "causal", "padding")
# Statuses of a case that ends without measurements.
FAILURES = ("oom", "timeout", "killed", "unsupported", "incorrect", "error")
# Axes along which a sweep can extend the grid by doubling the size.
GROWING = ("seq_len", "d_model", "batch_size")
# Long enough for several blocks of any blocked kernel in `impls`. A float64 reference still takes only milliseconds.
_SMALL_SEQ_LEN = 256
_SMALL_BATCH = 2


@dataclass(frozen=True, order=True)
class Case:
    """What is measured. Sizes: n = `seq_len`, d = `d_model`, h = `num_heads`, b = `batch_size`.

    `mode`: `forward` computes no gradients, `train` runs forward and backward. With `backward`, the backward pass alone
    is timed; its forward pass is made outside the timed part. With `decode`, a call adds one token, with n in all.

    `num_heads` is 1 for a layer without heads. At most `threads` CPU threads are available to torch.

    `allocator` is how the C library treats large blocks. It decides by itself (`default`), keeps blocks for good
    (`steady`) or obtains new ones at every call (`fresh`).

    `mask` is which tokens a token may attend to: all (`none`), no later ones (`causal`), or all but padding
    (`padding`). A fraction `padding_fraction` of the batch's tokens is padding, 0 without.

    `kv_len` is the length of a source that is attended to. At 0 a layer attends to its own input.
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
    padding_fraction: float = 0.0
    kv_len: int = 0

    @property
    def key(self) -> str:
        """The overrides that measure this case again: unique, stable, and ready to paste after `sweep`."""
        return " ".join(f"{name}={value}" for name, value in self.as_dict().items())

    @property
    def tokens(self) -> int:
        """The number of tokens that one call processes."""
        return self.batch_size * (1 if self.mode == "decode" else self.seq_len)

    def small(self) -> "Case":
        """The case that is verified for its kind: n and the source length as `_small` returns them, b at most 2."""
        return replace(
            self,
            seq_len=_small(self.seq_len),
            kv_len=_small(self.kv_len),
            batch_size=min(self.batch_size, _SMALL_BATCH),
        )

    def at(self, axis: str, size: int) -> "Case":
        """This case with another size along an axis."""
        changed: dict[str, Any] = {axis: size}
        return replace(self, **changed)

    def __str__(self) -> str:
        source = f" m={self.kv_len}" if self.kv_len else ""
        mask = f" {self.mask}" if self.mask != "none" else ""
        return f"{self.impl} n={self.seq_len}{source} d={self.d_model} h={self.num_heads}{mask}"

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as a row stores them."""
        # Each row calls this twice, and `dataclasses.asdict` copies.
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Case":
        """The case that `as_dict` wrote. Axes added since then get their defaults, and renamed ones are converted.

        Raises KeyError if a field without a default is missing, and TypeError if `data` is no mapping.
        """
        if not isinstance(data, Mapping):
            raise TypeError("a case is an object")
        if not FORMER_AXES.isdisjoint(data):
            data = present(data)
        return cls(**{name: data[name] if name in data or name not in DEFAULTS else DEFAULTS[name] for name in AXES})


def _small(length: int) -> int:
    """The largest length up to 256 that divides by two as often as `length`, at most 8 times.

    Up to 256 that is `length` itself. A kernel's last tile is then as full or as ragged as at `length`. So a kernel
    that takes full tiles only can be verified too.
    """
    if length <= _SMALL_SEQ_LEN:
        return length
    tile = min(length & -length, _SMALL_SEQ_LEN)
    return tile * ((_SMALL_SEQ_LEN // tile - 1) | 1)  # an odd number of tiles: 255, 254, 252, 248, … 256


# Axes that are not sizes. Cases that differ along one of them are never compared with each other.
SETTINGS = ("mode", "dtype", "device", "threads", "allocator", "mask", "padding_fraction", "kv_len")
AXES: tuple[str, ...] = tuple(field.name for field in fields(Case))
FORMER_AXES = frozenset(old for old, (new, _) in FORMER.items() if new in AXES)
# The value of an axis that is not given.
DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Case) if field.default is not MISSING}


def grid(
    axes: Mapping[str, Sequence[Any]],
    has_heads: Callable[[str], bool],
    points: Sequence[Mapping[str, Any]] = (),
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


def collapsed(case: Case, has_heads: Callable[[str], bool]) -> Case:
    """The canonical form of a case: equivalent cases collapse to the same one.

    A layer without heads is one case, not one per head count. The C library does not manage a GPU's memory, so the
    allocator makes no difference there. A decoded token comes after all others and sees all of a source, so no mask
    and a causal mask are one case. Without the mask `padding`, nothing is padded.
    """
    if not has_heads(case.impl):
        case = replace(case, num_heads=1)
    if case.device == "cuda":
        case = replace(case, allocator="default")
    if case.mode == "decode" and case.mask != "padding":
        case = replace(case, mask="none" if case.kv_len else "causal")
    if case.mask != "padding":
        case = replace(case, padding_fraction=0.0)
    return case
