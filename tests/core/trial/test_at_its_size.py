"""What is verified at a small n, and what is looked at in the size and the precision that is timed."""

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify
from harness.core.trial.workload import Unsupported


def late(name: str, n: int, **axes) -> Case:
    return Case(f"core.trial.late:{name}", n, 8, 1, **axes)


@pytest.mark.parametrize(
    ("name", "mode", "says"),
    [
        ("HalfItsTokens", "forward", "shape"),
        ("NoNumbers", "forward", "not finite at n = 320"),
        ("NoNumbers", "train", "not finite at n = 320"),
    ],
)
def test_what_is_right_only_where_it_is_verified_has_no_facts_and_so_no_time(name: str, mode: str, says: str) -> None:
    case = late(name, 320, mode=mode)
    verify(case.small(), seed=0)
    with pytest.raises(WrongResult, match=says):
        collect_metrics(case, seed=0)


def test_padding_may_come_out_as_no_number() -> None:
    case = late("NoNumbersInPadding", 32, mask="padding", padding_fraction=0.5)
    assert collect_metrics(case, seed=0)["peak_bytes"] > 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_zeros_are_explained_by_no_rounding(dtype: str) -> None:
    verify(late("ZerosInHalf", 16), seed=0)
    with pytest.raises(WrongResult, match="output is off by 1"):
        verify(late("ZerosInHalf", 16, dtype=dtype), seed=0)


@pytest.mark.parametrize(
    ("name", "n", "verified"),
    [("Tiles", 480, 192), ("Tiles", 96, 96), ("LargeTiles", 768, 384), ("PowerTiles", 640, 128)],
)
def test_a_kernel_of_full_tiles_is_verified_at_an_n_that_it_takes(name: str, n: int, verified: int) -> None:
    case = late(name, n)
    assert verify(case.small(), seed=0)["verified"]["seq_len"] == verified
    assert collect_metrics(case, seed=0)["peak_bytes"] > 0


def test_an_n_that_it_does_not_take_is_refused_in_its_words() -> None:
    with pytest.raises(Unsupported, match="n must be a multiple of 96"):
        collect_metrics(late("Tiles", 500), seed=0)
