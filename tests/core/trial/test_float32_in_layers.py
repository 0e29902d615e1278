"""Layers that make tensors of float32 in `forward`, such as masks, are right beside their reference in float64."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from harness.core.model.sweep_axes import Case
from harness.core.trial.accuracy import measure_accuracy
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify


class Attends(nn.Module):
    """Causal attention. `first` is the first later token, counted from the query, that the mask hides."""

    causal = True
    first = 1

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.kept = torch.full((320, 320), -torch.inf).triu(self.first)  # neither a buffer nor a parameter

    def mask(self, n: int) -> Tensor:
        return torch.full((n, n), -torch.inf).triu(self.first)

    def heads(self, x: Tensor) -> list[Tensor]:
        return [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return scaled_dot_product_attention(q, k, v, attn_mask=self.mask(x.shape[1])).transpose(1, 2).flatten(2)


class MaskedByZeros(Attends):
    def mask(self, n: int) -> Tensor:
        return torch.zeros(n, n).masked_fill(torch.ones(n, n, dtype=torch.bool).triu(self.first), -torch.inf)


class MaskedByABillion(Attends):
    def mask(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.float32).triu(self.first) * -1e9


class KeepsItsMask(Attends):
    def mask(self, n: int) -> Tensor:
        return self.kept[:n, :n]


class Alibi(Attends):
    def mask(self, n: int) -> Tensor:
        places = torch.arange(n)
        slopes = torch.tensor([2.0**-head for head in range(self.num_heads)])
        return super().mask(n) - (places[:, None] - places).abs() * slopes[:, None, None]


class Rotates(Attends):
    """Rotary embeddings from a table in float32."""

    def heads(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().heads(x)
        half = q.shape[-1] // 2
        angles = torch.arange(x.shape[1])[:, None] / 100 ** (torch.arange(half) / half)
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = [torch.view_as_complex(y.float().unflatten(-1, (half, 2))) * turns for y in (q, k)]
        return [*(torch.view_as_real(pair).flatten(-2).type_as(x) for pair in pairs), v]


class TorchsOwn(Attends):
    """torch's module adds the mask to the scores by a product that takes one dtype only."""

    needs_weights = False

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, attn_mask=self.mask(x.shape[1]), need_weights=self.needs_weights)[0]


class TorchsOwnWithWeights(TorchsOwn):
    needs_weights = True


class Averages(Attends):
    """A product with a matrix in float32."""

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.ones(x.shape[1], x.shape[1]).tril(self.first - 1)
        return (seen / seen.sum(1, keepdim=True)) @ self.qkv(x)[..., : x.shape[2]]


class OnlyInFloat32(Averages):
    """It runs in no other dtype."""

    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == torch.float32
        return super().forward(x)


class OneOff:
    """A query sees the token after it."""

    first = 2


class AttendsOneOff(OneOff, Attends): ...


class MaskedByABillionOneOff(OneOff, MaskedByABillion): ...


class KeepsItsMaskOneOff(OneOff, KeepsItsMask): ...


class AlibiOneOff(OneOff, Alibi): ...


class TorchsOwnOneOff(OneOff, TorchsOwn): ...


class TorchsOwnWithWeightsOneOff(OneOff, TorchsOwnWithWeights): ...


class AveragesOneOff(OneOff, Averages): ...


class OnlyInFloat32OneOff(OneOff, OnlyInFloat32): ...


class HidesPadding(Attends):
    causal = False

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q, k, v = self.heads(x)
        added = None if attn_mask is None else (1 - attn_mask.float()) * -1e9
        return scaled_dot_product_attention(q, k, v, attn_mask=added).transpose(1, 2).flatten(2)


class Against(Alibi):
    """Its reference has such a mask too."""

    reference = f"{__file__}:Alibi"

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + self.mask(x.shape[1]).to(x.dtype)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class RandomFeatures(Attends):
    """Its projection is drawn once, and in no state."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.projection = torch.randn(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.qkv(x)[..., : x.shape[2]] @ self.projection.to(x.dtype)


class Compiled(Attends):
    """It compiles itself, and its reference runs as it is written."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.compiled_forward = torch.compile(super().forward, backend="eager")

    def forward(self, x: Tensor) -> Tensor:
        return self.compiled_forward(x)


class Flexible(Attends):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        bias = torch.linspace(0, 1, x.shape[1])
        y = flex_attention(q, k, v, lambda score, b, h, i, j: torch.where(i >= j, score + bias[j], -torch.inf))
        return y.transpose(1, 2).flatten(2)


class FakeQuantized(Attends):
    """torch takes the scale of a quantization in float32 alone."""

    def forward(self, x: Tensor) -> Tensor:
        y, scale = self.qkv(x)[..., : x.shape[2]], torch.full((x.shape[2],), 0.01)
        return torch.fake_quantize_per_channel_affine(
            y, scale, torch.zeros(len(scale), dtype=torch.int32), 2, -128, 127
        )


def own(layer: type, **axes: object) -> Case:
    return Case(f"{Path(__file__)}:{layer.__name__}", 48, 16, 2, batch_size=2, **axes)


ALL_DTYPES = [
    Attends,
    MaskedByZeros,
    MaskedByABillion,
    KeepsItsMask,
    Alibi,
    Rotates,
    TorchsOwn,
    RandomFeatures,
    Against,
]
FLOAT32_ONLY = [TorchsOwnWithWeights, Averages, FakeQuantized]
ONE_OFF = [AttendsOneOff, MaskedByABillionOneOff, KeepsItsMaskOneOff, AlibiOneOff, TorchsOwnOneOff, AveragesOneOff]


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize(
    ("layer", "dtype"),
    [*((layer, "bfloat16") for layer in ALL_DTYPES), *((layer, "float32") for layer in FLOAT32_ONLY)],
)
def test_a_float32_tensor_makes_no_right_layer_incorrect(layer: type, dtype: str, mode: str) -> None:
    case = own(layer, mode=mode, dtype=dtype)
    most = {"bfloat16": 0.02, "float32": 2e-6}[dtype]  # 5 and 17 units in the last place
    assert verify(case, seed=0)["output_error"] < most
    facts = collect_metrics(case, 0, measure_accuracy)
    assert facts["output_error"] < most
    assert facts.get("gradient_error") is None or facts["gradient_error"] < 2 * most


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("layer", [*ONE_OFF, TorchsOwnWithWeightsOneOff, OnlyInFloat32OneOff])
def test_a_mask_that_is_one_off_is_seen(layer: type, mode: str) -> None:
    with pytest.raises(WrongResult, match="it sees later tokens that the mask hides: its output is off by"):
        verify(own(layer, mode=mode), seed=0)


@pytest.fixture
def compiler() -> Iterator[None]:
    """Leave nothing compiled for the tests that follow in this process."""
    yield
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@pytest.mark.usefixtures("compiler")
@pytest.mark.filterwarnings("ignore::UserWarning")  # FlexAttention warns that it is not compiled
@pytest.mark.parametrize("layer", [Compiled, Flexible])
def test_layers_that_compile_are_compared_with_float64_at_both_sizes(layer: type) -> None:
    answer = verify(own(layer), seed=0)
    assert answer["against"] == "itself in float64"
    assert answer["output_error"] < 2e-6
    assert collect_metrics(own(layer), 0, measure_accuracy)["output_error"] < 2e-6


def test_a_layer_of_float32_alone_is_right_as_far_as_can_be_seen() -> None:
    answer = verify(own(OnlyInFloat32, mode="train"), seed=0)
    assert (answer["against"], answer["output_error"]) == ("nothing: it does not run in float64", None)


def test_a_float32_mask_of_padding_is_right() -> None:
    assert verify(own(HidesPadding, mask="padding", padding_fraction=0.5), seed=0)["output_error"] < 2e-6


def test_in_float64_torch_misreads_a_float32_mask_and_the_layer_is_incorrect() -> None:
    with pytest.raises(WrongResult, match="output is off by"):
        verify(own(Attends, dtype="float64"), seed=0)


class Spectral(nn.Module):
    """A product with the absolute values of a Fourier transform, in the precision of the case."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x, dim=1)
        return self.out(torch.fft.irfft(spectrum * spectrum.abs(), n=x.shape[1], dim=1))


class InFloat32(Spectral):
    """The transform is in float32 whatever the case is in."""

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x.float(), dim=1)
        return self.out(torch.fft.irfft(spectrum * spectrum.abs(), n=x.shape[1], dim=1).to(x.dtype))


class InFloat32BesideAReference(InFloat32):
    reference = Spectral


class InFloat32AsAnApproximation(InFloat32BesideAReference):
    allowed_error = 0.01


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("layer", [InFloat32, InFloat32BesideAReference])
def test_a_layer_that_computes_in_float32_though_asked_for_float64_is_told_so(layer: type, mode: str) -> None:
    reason = r"output is off by \d\.\de-07 .*, as in float32: it computes in float32 though float64 was asked for$"
    with pytest.raises(WrongResult, match=reason):
        verify(own(layer, mode=mode, dtype="float64"), seed=0)
    assert 1e-8 < verify(own(layer, mode=mode), seed=0)["output_error"] < 1e-6


@pytest.mark.parametrize(("layer", "least", "most"), [(Spectral, 0.0, 1e-14), (InFloat32AsAnApproximation, 1e-8, 1e-6)])
def test_in_float64_a_layer_that_computes_in_it_and_an_approximation_are_right(
    layer: type, least: float, most: float
) -> None:
    assert least <= verify(own(layer, mode="train", dtype="float64"), seed=0)["output_error"] < most
