"""Whether a path leads from the first token to the last, by what the layers are."""

from collections.abc import Iterator

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.result_checks import missing_path
from harness.core.trial.workload import build


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def case_of(impl: str, n: int, dtype: str, mode: str = "forward") -> Case:
    impl = impl if "." in impl else f"core.trial.reaches:{impl}"
    return Case(impl, n, 8, 1, mode=mode, dtype=dtype)


def path_of(impl: str, n: int, dtype: str = "float32") -> str:
    """Why a trial of the facts finds no path from the first token to the last; empty if it finds one."""
    found = collect_metrics(case_of(impl, n, dtype), 0)
    return "; ".join(why for why in found["facts_unknown"] if "path" in why)


@pytest.mark.parametrize(("impl", "reaches"), [("Pointwise", 1), ("Convolution", 5), ("Windows", 16), ("Masked", 16)])
def test_a_layer_has_a_path_from_end_to_end_only_up_to_as_many_tokens_as_it_reaches(impl: str, reaches: int) -> None:
    assert path_of(impl, reaches) == ""
    for n in (2 * reaches if impl == "Windows" else reaches + 1, 128):
        assert path_of(impl, n) == f"path: at n = {n} the last output has no gradient by the first token"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("impl", ["Full", "rnn.elman"])
def test_a_gradient_that_fades_is_a_path(impl: str, dtype: str) -> None:
    case = case_of(impl, 1024, dtype, mode="train")
    assert missing_path(build(case, 0), case) == ""


def test_a_path_that_autograd_does_not_follow_is_unknown() -> None:
    assert path_of("Without", 64).startswith("path: the layer does not run under watch: RuntimeError")
