"""The kernel that really ran, and whether a faster one was passed over."""

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.counts.opaque_kernels import backend_name


@pytest.mark.parametrize(
    ("operations", "name"),
    [
        (["aten::mm"], "ATen"),
        (["aten::linear", "aten::_scaled_dot_product_attention_math"], "math"),
        (["aten::_scaled_dot_product_flash_attention", "aten::_flash_attention_forward"], "flash"),
        (["aten::_scaled_dot_product_efficient_attention"], "efficient"),
        (["aten::_scaled_dot_product_cudnn_attention"], "cudnn"),
        (["aten::rnn_tanh", "aten::_cudnn_rnn"], "cudnn"),
        (["aten::lstm", "aten::mkldnn_rnn_layer"], "oneDNN"),
        (["aten::gru"], "ATen loop"),
        (["aten::lstm"], "ATen loop"),
    ],
)
def test_the_operations_name_the_backend(operations: list[str], name: str) -> None:
    assert backend_name(operations) == name


# The operations of `nn.RNN` on CUDA, as torch's profiler names them: by cuDNN, and in ATen's loop over time, which runs
# where cuDNN does not support the dtype. Both may ask whether cuDNN wants its weights in one block.
RNN_BY_CUDNN = ["aten::rnn_tanh", "aten::zeros", "aten::_use_cudnn_rnn_flatten_weight", "aten::_cudnn_rnn"]
RNN_TRAINED_BY_CUDNN = [*RNN_BY_CUDNN, "CudnnRnnBackward0", "aten::_cudnn_rnn_backward"]
ATEN_STEP = ["aten::linear", "aten::addmm", "aten::add", "aten::tanh"]
RNN_BY_ATEN = ["aten::rnn_tanh", "aten::_use_cudnn_rnn_flatten_weight", "aten::unbind", *ATEN_STEP, "aten::stack"]
RNN_TRAINED_BY_ATEN = [*RNN_BY_ATEN, "aten::_cudnn_rnn_flatten_weight", "TanhBackward0", "aten::tanh_backward"]


@pytest.mark.parametrize(
    ("operations", "name"),
    [
        (RNN_BY_CUDNN, "cudnn"),
        (RNN_TRAINED_BY_CUDNN, "cudnn"),
        (["CudnnRnnBackward0", "aten::_cudnn_rnn_backward"], "cudnn"),  # mode=backward
        (RNN_BY_ATEN, "ATen loop"),
        (RNN_TRAINED_BY_ATEN, "ATen loop"),
    ],
)
def test_a_recurrent_layer_on_cuda_is_cudnns_only_if_cudnn_computed_it(operations: list[str], name: str) -> None:
    assert backend_name(operations) == name


def test_a_layer_that_fell_back_once_in_two_calls_does_not_pass_for_a_fast_one() -> None:
    calls = ["aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_attention_math"]
    assert backend_name(calls) == backend_name(reversed(calls)) == "math"


@pytest.mark.parametrize(
    ("impl", "ran"),
    [
        ("attention.fused", "flash"),
        ("attention.naive", "ATen"),
        ("rnn.elman", "ATen"),
        ("rnn.torch", "ATen loop"),
        ("planted_kernels:TorchGRU", "ATen loop"),
        ("planted_kernels:TorchLSTM", "oneDNN"),
        ("planted_kernels:TorchMHA", "math"),
        ("planted_kernels:CausalSdpa", "flash"),
    ],
)
def test_the_facts_of_a_case_name_the_kernel_that_ran(runner: Executor, impl: str, ran: str) -> None:
    facts = runner.run("facts", Case(impl, 16, 8, 2)).values
    assert (facts["backend"], facts["backend_fallback"]) == (ran, None)


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_a_silent_fallback_shows_as_such(runner: Executor, mode: str) -> None:
    facts = runner.run("facts", Case("planted_kernels:FallsBackToMath", 16, 8, 2, mode=mode)).values
    assert facts["backend"] == "math"
    assert "fell back to math" in facts["backend_fallback"]


def test_math_that_was_asked_for_is_no_fallback(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted_kernels:PinsMath", 16, 8, 2)).values
    assert (facts["backend"], facts["backend_fallback"]) == ("math", None)


def test_watching_a_layer_does_not_change_its_path(runner: Executor) -> None:
    # The evaluation path of nn.MultiheadAttention is one operation, and turns itself off for some ways of watching.
    assert runner.run("facts", Case("planted_kernels:TorchMHA", 16, 8, 2)).values["ops"] == 1
