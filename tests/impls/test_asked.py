"""What each layer can be asked for on a CPU; with reasons for the rest, it is docs/reference/layers.md as a table."""

from typing import Any

import pytest
from ladder import EAGER, HERE, asked, can

from harness.core.model.sweep_axes import DTYPES
from impls.adapters.entries import OF_KERNELS, TRANSFORMERS

SETTINGS: dict[str, dict[str, Any]] = {
    "causal": {"mask": "causal"},
    "padding": {"mask": "padding", "padding_fraction": 0.5},
    "source": {"kv_len": 21},
    "padded source": {"kv_len": 21, "mask": "padding", "padding_fraction": 0.5},
    "decode": {"mode": "decode"},
    "decode over a source": {"mode": "decode", "kv_len": 21},
}
MASKS = {"causal", "padding"}
SOURCES = {"source", "padded source"}
STEPS = {"decode"}
STEPS_OVER_A_SOURCE = {"decode", "decode over a source"}
SOFTMAX = ("single", "naive", "packed", "chunked", "fused", "fused.flash", "fused.math", "gqa")
RECURRENT = ("linear.recurrent", "linear.chunked")
RNN = ("elman", "torch", "gru", "gru.torch", "lstm", "lstm.torch", "mingru", "mingru.parallel")
RNN += ("minlstm", "minlstm.parallel", "linear_scan")
LINEAR_TIME = ("ssd", "gated_delta", "mlstm", "rwkv7")
ASKED: dict[str, set[str]] = {
    **{f"rnn.{name}": MASKS | STEPS for name in RNN},
    "conv.conv1d": MASKS | STEPS,
    **{f"linear.{name}.{form}": MASKS | STEPS for name in LINEAR_TIME for form in ("recurrent", "chunked")},
    **{f"sdpa.{name}": MASKS for name in ("naive", "fused", "flash")},
    **{f"sdpa.{name}": MASKS for name in ("varlen", "document_mask")},
    "sdpa.nested": {"padding"},
    "sdpa.paged": STEPS,
    **{f"attention.{name}": MASKS | SOURCES | STEPS_OVER_A_SOURCE for name in (*SOFTMAX, "linear.parallel")},
    **{f"attention.{name}": MASKS | STEPS for name in ("window", *RECURRENT)},
    **{f"attention.{name}": MASKS | STEPS for name in ("window.global", "block_sparse", "latent")},
    **{f"attention.{name}": MASKS | SOURCES for name in ("module", "module.weights")},
    "attention.uncached": MASKS | SOURCES | STEPS,
    **{f"encoder.{name}": MASKS for name in (*SOFTMAX, "module", "module.weights", "window", "linear.parallel")},
    **{f"encoder.{name}": MASKS | STEPS for name in RECURRENT},
    **{
        f"decoder.{name}": MASKS | SOURCES | STEPS_OVER_A_SOURCE
        for name in (*SOFTMAX, "window", "linear.parallel", *RECURRENT)
    },
    **{f"decoder.{name}": MASKS | SOURCES for name in ("module", "module.weights")},
    **{f"encoder6.{name}": MASKS for name in ("packed", "fused", "linear.parallel")},
}
# A scan in log space, in float32 whatever it is given.
NOT_IN_FLOAT64 = {"rnn.mingru.parallel", "rnn.minlstm.parallel"}
# Their kernels are a GPU's.
NOT_HERE = [
    f"{around}.fused.{kernel}" for around in ("attention", "encoder", "decoder") for kernel in ("efficient", "cudnn")
]
NOT_HERE += ["attention.flash_attn", "attention.xformers", *(impl.name for impl in OF_KERNELS if not impl.compiled)]


def test_every_layer_that_is_not_compiled_is_in_one_of_the_tables() -> None:
    # Those of transformers run wherever it is installed: tests/impls/adapters/test_transformers.py.
    assert sorted(EAGER) == sorted([*ASKED, *NOT_HERE, *(impl.name for impl in TRANSFORMERS if not impl.compiled)])


@pytest.mark.parametrize("name", ASKED)
def test_it_can_be_asked_for_these_masks_sources_and_steps(name: str) -> None:
    assert {label for label, setting in SETTINGS.items() if can(name, **setting)} == ASKED[name]


@pytest.mark.parametrize("name", HERE)
def test_it_can_be_trained_in_these_precisions(name: str) -> None:
    without = {"float64"} if name in NOT_IN_FLOAT64 else set()
    for mode in ("train", "backward"):
        assert {dtype for dtype in DTYPES if can(name, dtype=dtype, mode=mode)} == {*DTYPES} - without


@pytest.mark.parametrize("name", NOT_HERE)
def test_a_kernel_of_a_gpu_says_that_it_is_one(name: str) -> None:
    reason = asked(name, 40, 48, 4)[1]
    assert reason is not None
    assert "cuda" in reason.lower()
