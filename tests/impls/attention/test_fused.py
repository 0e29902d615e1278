"""Fused attention: one of the kernels that it names, or none."""

import pytest
import torch
from attention.watch import watched
from torch import Tensor

from harness.core.model.sweep_axes import Case
from impls.attention import fused
from impls.attention.fused import CudnnAttention, EfficientAttention, FlashAttention, FusedAttention, MathAttention
from impls.attention.plain import PackedAttention

ALL = (FusedAttention, FlashAttention, EfficientAttention, CudnnAttention, MathAttention)
FLASH_KERNEL = "aten::_scaled_dot_product_flash_attention_for_cpu"


@pytest.mark.parametrize("layer_class", [FusedAttention, FlashAttention])
def test_on_the_cpu_it_is_the_flash_kernel(layer_class: type[FusedAttention]) -> None:
    seen = watched(lambda: layer_class(8, 2)(torch.randn(2, 5, 8)))
    assert FLASH_KERNEL in seen.names


def test_math_writes_the_scores_to_memory_and_computes_the_same() -> None:
    math, packed = MathAttention(8, 2), PackedAttention(8, 2)
    math.load_state_dict(packed.state_dict())
    x = torch.randn(1, 50, 8)
    torch.testing.assert_close(math(x), packed(x))
    seen = watched(lambda: math(x))
    assert FLASH_KERNEL not in seen.names
    assert seen.largest == 2 * 50 * 50


@pytest.mark.parametrize("layer_class", [EfficientAttention, CudnnAttention])
def test_a_kernel_that_is_not_there_is_not_replaced_in_silence(layer_class: type[FusedAttention]) -> None:
    with pytest.raises(RuntimeError, match=r"No (viable backend|available kernel)"):
        layer_class(8, 2)(torch.randn(1, 4, 8))


def test_a_call_that_no_fused_kernel_takes_is_not_done_by_math() -> None:
    q, k, v = torch.randn(3, 1, 2, 4, 5).transpose(-2, -1).unbind(0)  # the kernel wants rows that lie together
    with pytest.raises(RuntimeError, match=r"No (viable backend|available kernel)"):
        fused.pinned_attention(q, k, v, None, False, fused.FUSED)


def test_flash_switched_off_for_the_process_is_still_flash() -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 4).unbind(0)
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        seen = watched(lambda: fused.pinned_attention(q, k, v, None, False, fused.FUSED))
        assert not torch.backends.cuda.flash_sdp_enabled()
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
    assert FLASH_KERNEL in seen.names


def test_torch_is_forbidden_other_kernels_only_where_it_would_take_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def entered(backends: object) -> None:
        raise AssertionError("entered")

    monkeypatch.setattr(fused, "_switched", entered)
    q, k, v = torch.randn(3, 1, 2, 5, 4).unbind(0)
    seen = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    for mask, is_causal in ((None, False), (None, True), (seen, False)):
        fused.pinned_attention(q, k, v, mask, is_causal, fused.FUSED)
    with pytest.raises(AssertionError, match="entered"):
        fused.pinned_attention(q, k, v, None, False, fused.MATH)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("masked", ["none", "causal", "padding"])
def test_what_torch_says_it_would_take_is_what_it_takes(dtype: torch.dtype, trains: bool, masked: str) -> None:
    q, k, v = (t.requires_grad_(trains) for t in torch.randn(3, 2, 2, 5, 4, dtype=dtype).unbind(0))
    mask = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])[:, None, None] if masked == "padding" else None
    assert torch._fused_sdp_choice(q, k, v, mask, 0.0, masked == "causal") in fused.FLASH
    seen = watched(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, 0.0, masked == "causal"))
    assert FLASH_KERNEL in seen.names


def on(device: str, dtype: str = "float16", mask: str = "none", d: int = 64, h: int = 4) -> Case:
    return Case("attention.fused", 64, d, h, device=device, dtype=dtype, mask=mask)


@pytest.mark.parametrize(
    ("layer_class", "case", "reason"),
    [
        (FusedAttention, on("cuda", "float64"), "float64"),
        (FlashAttention, on("cuda", "float32"), "not in float32"),
        (FlashAttention, on("cuda", mask="padding"), "no mask but a causal one"),
        (FlashAttention, on("cuda", d=1024, h=2), "up to 256, not 512"),
        (EfficientAttention, on("cpu"), "CUDA only"),
        (EfficientAttention, on("cuda", "float64"), "float64"),
        (CudnnAttention, on("cpu"), "CUDA only"),
        (CudnnAttention, on("cuda", "float32"), "not in float32"),
        (CudnnAttention, on("cuda", d=48), "a multiple of 8, not 12"),
    ],
)
def test_what_a_kernel_cannot_do_is_said_beforehand(layer_class: type[FusedAttention], case: Case, reason: str) -> None:
    said = layer_class.supports(case)
    assert said is not None
    assert reason in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("layer_class", "case"),
    [
        *((each, on("cpu", dtype)) for each in (FusedAttention, FlashAttention) for dtype in ("float32", "float64")),
        *((each, on("cuda")) for each in ALL),
        *((each, on("cuda", mask="causal")) for each in ALL),
        *((each, on("cuda", "float32")) for each in (FusedAttention, EfficientAttention)),
        *((each, on("cuda", "bfloat16")) for each in ALL),
        (EfficientAttention, on("cuda", mask="padding")),
        *((MathAttention, on(device, "float64", "padding")) for device in ("cpu", "cuda")),
    ],
)
def test_nothing_is_said_against_what_a_kernel_can_do(layer_class: type[FusedAttention], case: Case) -> None:
    assert layer_class.supports(case) is None


@pytest.mark.parametrize(("capability", "refused"), [((7, 5), True), ((8, 0), False), ((9, 0), False)])
def test_half_precision_kernels_need_a_gpu_that_has_them(
    capability: tuple[int, int], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(fused.torch.cuda, "get_device_capability", lambda: capability)
    for layer_class in (FlashAttention, CudnnAttention, EfficientAttention):
        assert ("8.0" in (layer_class.supports(on("cuda", "bfloat16")) or "")) == refused
    assert EfficientAttention.supports(on("cuda", "float16")) is None


def test_a_source_of_another_length_is_attended_to() -> None:
    fused, packed = FusedAttention(8, 2), PackedAttention(8, 2)
    fused.load_state_dict(packed.state_dict())
    x, source = torch.randn(2, 5, 8), torch.randn(2, 9, 8)
    expected: Tensor = packed(x, source=source)
    torch.testing.assert_close(fused(x, source=source), expected)


def test_after_a_pinned_call_every_kernel_is_allowed_as_before_even_where_it_failed() -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 4).unbind(0)

    def allowed() -> list[bool]:
        return [is_allowed() for is_allowed, _ in fused._SWITCHES.values()]

    before = allowed()
    fused.pinned_attention(q, k, v, None, False, fused.MATH)
    assert allowed() == before
    with pytest.raises(RuntimeError):
        fused.pinned_attention(q, k, v, None, False, fused.EFFICIENT)
    assert allowed() == before
