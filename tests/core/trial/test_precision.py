"""float32 is float32, whatever the machine's environment or a layer's own module has set."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.trial import peak_rates
from harness.core.trial.workload import build, exact_float32


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    exact_float32()


def is_exact() -> bool:
    return (
        torch.get_float32_matmul_precision() == "highest"
        and not torch.backends.cuda.matmul.allow_tf32
        and not torch.backends.cudnn.allow_tf32
    )


def rounds_in_matmul() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True


def rounds_everywhere_in_cudnn() -> None:
    torch.backends.cudnn.allow_tf32 = True


def rounds_as_a_training_script_does() -> None:
    torch.set_float32_matmul_precision("high")


def rounds_in_all_of_torch() -> None:
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("since torch 2.9")
    torch.backends.fp32_precision = "tf32"


ROUNDING = [
    rounds_in_matmul,
    rounds_everywhere_in_cudnn,
    rounds_as_a_training_script_does,
    rounds_in_all_of_torch,
]


@pytest.mark.parametrize("rounding", ROUNDING)
def test_a_layer_is_built_for_exact_products_whatever_its_module_has_set(rounding) -> None:
    rounding()
    build(Case("attention.packed", 4, 8, 2), seed=0)
    assert is_exact()


def test_the_peak_of_float32_is_that_of_exact_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_rates, "SIZES", (8,))
    rounds_as_a_training_script_does()
    peak_rates.take_flops(Case("-", 1, 1, 1), 0.001, None)
    assert is_exact()


def test_an_environment_that_rounds_is_overruled() -> None:
    code = """if True:
        import torch
        from harness.core.trial.workload import exact_float32
        before = torch.backends.cuda.matmul.allow_tf32
        exact_float32()
        print(before, torch.backends.cuda.matmul.allow_tf32)
    """
    environment = os.environ | {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
    run = [sys.executable, "-c", code]
    said = subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", "False"]
