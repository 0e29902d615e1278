"""A case: one point of the grid, and the grid they come from."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

MODES = ("forward", "train")
DTYPES = ("float32", "bfloat16", "float16", "float64")
DEVICES = ("cpu", "cuda")
ALLOCATORS = ("default", "steady", "fresh")
_SMALL_SEQ_LEN = 64
_SMALL_BATCH = 2


@dataclass(frozen=True, order=True)
class Case:
    """What is measured. Sizes: n = `seq_len`, d = `d_model`, h = `num_heads`, b = `batch_size`.

    `mode` is `forward` (no gradients) or `train` (forward and backward). A layer without heads has
    `num_heads` 1. `threads` is the number of CPU threads torch may use. `allocator` says how the C library treats
    large blocks: as it likes (`default`), kept for good (`steady`) or new at every call (`fresh`).
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

    @property
    def key(self) -> str:
        """The overrides that measure this case again: unique, stable, and to be pasted after `sweep`."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())

    @property
    def tokens(self) -> int:
        """Tokens that one call processes."""
        return self.batch_size * self.seq_len

    def small(self) -> "Case":
        """The case that stands for its kind where correctness is at stake: n halved until small, b at most 2."""
        n = self.seq_len
        while n > _SMALL_SEQ_LEN:
            n //= 2
        return replace(self, seq_len=n, batch_size=min(self.batch_size, _SMALL_BATCH))

    def __str__(self) -> str:
        return f"{self.impl} n={self.seq_len} d={self.d_model} h={self.num_heads}"

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as they stand in a row."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Case":
        """The case that `as_dict` wrote. Raises KeyError for a field that is missing."""
        return cls(**{name: data[name] for name in AXES})


AXES: tuple[str, ...] = tuple(field.name for field in fields(Case))


def grid(axes: Mapping[str, Sequence[Any]], has_heads: Callable[[str], bool]) -> Iterator[Case]:
    """Every combination of the axes' values, without repeats.

    A layer without heads is one case and not one a head count; a GPU's memory is not the C library's, and is one
    case whatever the allocator.
    """
    seen = set()
    for point in itertools.product(*(axes[name] for name in AXES)):
        case = Case(*point)
        if not has_heads(case.impl):
            case = replace(case, num_heads=1)
        if case.device == "cuda":
            case = replace(case, allocator="default")
        if case not in seen:
            seen.add(case)
            yield case
