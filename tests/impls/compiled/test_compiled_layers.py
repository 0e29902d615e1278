"""The compiled layers: what they compute, that they are compiled, and into how many programs."""

from typing import Any

import pytest
import torch
from compilers import needs_cxx
from torch import nn
from torch._dynamo.utils import counters

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import trace_call
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from impls.attention.compiled import CompiledAttention, FlexAttention
from impls.attention.plain import PackedAttention
from impls.registry import IMPLS
from impls.rnn.gated import CompiledElman, Elman

# The compiler warns of what it does itself, and flex_attention of being watched uncompiled.
pytestmark = [needs_cxx, pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")]
# More than one block of FlexAttention's.
N = 140
ATTENTION, FLEX, RNN = "attention.compiled", "attention.flex", "rnn.compiled"


def programs() -> int:
    return counters["stats"]["unique_graphs"]


@pytest.fixture(autouse=True)
def _count_from_zero() -> None:
    counters.clear()


@pytest.mark.parametrize(
    ("case", "graphs"),
    [
        (Case(ATTENTION, 24, 16, 2, mode="train"), 1),
        (Case(ATTENTION, 12, 16, 2, batch_size=2, mode="decode", mask="causal"), 1),
        (Case(RNN, 9, 8, 1, mode="train"), 2),  # what is left over, and blocks
        (Case(RNN, 5, 8, 1, batch_size=2, mode="decode", mask="causal"), 1),
        (Case(FLEX, N, 16, 2, mask="causal"), 1),
    ],
    ids=lambda value: str(value),
)
def test_it_computes_what_its_reference_does_in_as_few_programs_as_it_says(
    monkeypatch: pytest.MonkeyPatch, case: Case, graphs: int
) -> None:
    monkeypatch.setattr("impls.rnn.gated.BLOCK", 4)  # which compiles sooner
    result = verify(case, seed=0)
    assert result["against"].endswith("Reference")
    assert programs() == graphs


def test_a_padding_mask_becomes_a_block_mask_outside_the_call() -> None:
    case = Case(FLEX, 48, 16, 2, batch_size=3, mask="padding", padding_fraction=0.5)
    layer = FlexAttention(16, 2)
    real = torch.arange(48)[None] < torch.tensor([[10], [20], [30]])
    given = layer.prepare(torch.zeros(3, 48, 16), attn_mask=real[:, None, None])
    assert set(given) == {"source", "block_mask"}
    assert given["block_mask"].shape == (3, 1, 48, 48)
    assert verify(case, seed=0)["output_error"] >= 0
    assert programs() == 1


def test_a_mask_that_was_not_prepared_is_the_same_mask() -> None:
    layer = FlexAttention(16, 2).requires_grad_(False)
    x = torch.randn(1, N, 16)
    prepared = layer(x, **layer.prepare(x, is_causal=True))
    torch.testing.assert_close(layer(x, is_causal=True), prepared)
    ones = torch.ones(1, 1, N, N, dtype=torch.bool).tril()
    plain = PackedAttention(16, 2)
    plain.load_state_dict(layer.state_dict())
    torch.testing.assert_close(prepared, plain(x, attn_mask=ones))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"mode": "train"}, "no backward pass on the CPU"),
        ({"mode": "backward"}, "no backward pass on the CPU"),
        ({"mode": "decode"}, "attention.compiled decodes"),
        ({"dtype": "float64"}, "float32"),
        ({"device": "cuda", "d_model": 24}, "heads of 16 or more on a GPU, and these are of 12"),
    ],
)
def test_what_flex_attention_cannot_do_has_its_reason(changes: dict[str, Any], why: str) -> None:
    case = Case(**{**Case(FLEX, 64, 32, 2).as_dict(), **changes})
    assert why in str(FlexAttention.supports(case))
    assert FlexAttention.supports(Case(FLEX, 64, 32, 2)) is None


@pytest.mark.parametrize(
    ("impl", "mode", "claim"),
    [
        (ATTENTION, "forward", "work"),
        (ATTENTION, "train", "work_train"),
        (ATTENTION, "decode", "work_decode"),
        (FLEX, "forward", "work"),
        (RNN, "forward", "work"),
        (RNN, "train", "work_train"),
        (RNN, "decode", "work_decode"),
    ],
)
@pytest.mark.parametrize(("b", "n", "d", "h"), [(1, 17, 8, 2), (2, 1, 12, 3), (3, 48, 16, 1)])
def test_the_work_is_what_it_claims(impl: str, mode: str, claim: str, b: int, n: int, d: int, h: int) -> None:
    case = Case(impl, n, d, h, batch_size=b, mode=mode, mask="causal" if mode == "decode" else "none")
    with torch.compiler.set_stance("force_eager"):  # work is counted uncompiled, and nothing else is asked for here
        work = trace_call(build(case, seed=0)).flops.work
    assert work is not None
    assert work.flops == work.full == b * layer_lookup.claims_of_impl(impl)[claim](n=n, d=d, h=h)


@pytest.mark.parametrize(
    ("compiled", "plain"), [(CompiledAttention(16, 2), PackedAttention(16, 2)), (CompiledElman(16), Elman(16))]
)
def test_compiling_adds_nothing_to_the_state(compiled: nn.Module, plain: nn.Module) -> None:
    assert compiled.state_dict().keys() == plain.state_dict().keys()


def test_a_compiled_loop_has_the_gradients_of_finite_differences() -> None:
    layer = CompiledElman(4).double()
    x = torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))


@pytest.mark.parametrize("impl", [ATTENTION, FLEX, RNN])
def test_the_registry_says_that_they_compile(impl: str) -> None:
    assert IMPLS[impl].compiled
