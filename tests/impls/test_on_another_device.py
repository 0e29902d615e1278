"""On a GPU a layer finds all it needs there: masks, tables, caches and gradients. Shown without one, on torch's `meta`.

Where one of these was made on the CPU by mistake a call would raise on a GPU alone, or wait for it unseen.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from another_device import THERE, AnotherDevice, OnTwoDevices
from torch import Tensor, nn

from harness.core.layers import layer_lookup
from harness.core.model.case_grid import collapsed
from harness.core.model.sweep_axes import MODES, Case
from harness.core.trial.counts.collect import trace_call
from harness.core.trial.layer_protocol import is_causal, unsupported_reason
from harness.core.trial.verify import verify
from harness.core.trial.workload import Workload, build
from impls.registry import IMPLS

# Few tokens, as some layers are loops over them; heads large enough for any kernel.
N, HEAD = 3, 16
MASKS = [
    {"mask": "none"},
    {"mask": "causal"},
    {"mask": "padding", "padding_fraction": 0.5},
    {"kv_len": 2},
    {"kv_len": 2, "mask": "padding", "padding_fraction": 0.6},
]
# A block adds a table of positions and two masks to its attention layer, whichever that is.
AROUND = ("naive", "window", "linear.recurrent")
# They read the values of their lengths, and tensors on `meta` have none.
OF_LENGTHS = ("sdpa.varlen", "sdpa.nested", "sdpa.document_mask", "sdpa.document_mask.flex", "sdpa.paged")
APART = ("encoder", "decoder", *OF_LENGTHS)
LAYERS = [name for name, impl in IMPLS.items() if not name.startswith(APART) and not impl.package]
BLOCKS = [name for name in IMPLS if name.startswith(("encoder.", "decoder.")) and name.endswith(AROUND)]
STACK = "encoder6.fused"


@pytest.fixture(autouse=True)
def _not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled layer runs as it is written, and flex_attention, which knows no device `meta`, is another function."""
    monkeypatch.setattr(torch, "compile", lambda f, **_: _attended if f.__name__ == "flex_attention" else f)


def _attended(q: Tensor, k: Tensor, v: Tensor, block_mask: Any) -> Tensor:
    return (q @ k.mT) @ v * (block_mask.kv_num_blocks.sum() > 0)


def cases(name: str) -> list[Case]:
    """Every mode under every mask and over a source, as far as the layer can be asked for it and it makes a difference,
    each mode and each mask in either precision.
    """
    layer_class, heads = layer_lookup.load_class(name), 4 if "gqa" in name else 2
    like = Case(name, N, HEAD * heads, heads, batch_size=2, device="cuda")
    dtypes = ("bfloat16", "float32") if unsupported_reason(layer_class, like) is None else ("bfloat16",)
    found = {}
    for (i, mode), (j, mask) in product(enumerate(MODES), enumerate(MASKS)):
        case = replace(like, mode=mode, dtype=dtypes[(i + j) % len(dtypes)], **mask)  # type: ignore[arg-type]
        case = collapsed(case, lambda impl: IMPLS[impl].has_heads)
        effective = case.mask if case.mask != "causal" or not is_causal(layer_class) else "none"
        if unsupported_reason(layer_class, case) is None:
            found.setdefault((mode, effective, case.kv_len), case)
    return list(found.values())


def built_and_called(case: Case) -> tuple[Workload, list[Tensor]]:
    """The workload after a call, and what came out of that. Raises OnTwoDevices, naming the case."""
    torch.set_grad_enabled(True)
    try:
        with AnotherDevice() as device:
            work = build(case, seed=0)
            device.alone = True
            answer = work.call()
    except Exception as error:
        error.add_note(case.key)
        raise
    outputs = answer if isinstance(answer, tuple) else (answer,)
    return work, [out for out in outputs if out is not None]


def check(case: Case) -> None:
    work, outputs = built_and_called(case)
    dtype, parameters = getattr(torch, case.dtype), dict(work.layer.named_parameters())
    if case.mode == "backward":
        assert len(outputs) == len(work.inputs) + len(parameters), case
    else:
        b, n, d = case.batch_size, case.seq_len, case.d_model
        assert [out.shape for out in outputs] == [(b, d) if case.mode == "decode" else (b, n, d)], case
    if case.mode == "train":
        outputs += [of for of in (leaf.grad for leaf in (*work.inputs, *parameters.values())) if of is not None]
        assert [name for name, parameter in parameters.items() if parameter.grad is None] == [], case
    for tensor in (*work.inputs, *parameters.values(), *outputs):
        assert (tensor.device, tensor.dtype) == (THERE, dtype), case
    for tensor in (*work.constants, *work.layer.buffers()):
        assert tensor.device == THERE, case
        # A sum over tokens may be kept in more than the layer's own precision; never in less.
        if tensor.is_floating_point():
            assert torch.promote_types(tensor.dtype, dtype) == tensor.dtype, case


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_finds_everything_on_its_device_in_every_mode_under_every_mask_and_over_a_source(name: str) -> None:
    for case in cases(name):
        check(case)


@pytest.mark.parametrize("name", [*BLOCKS, STACK])
def test_a_block_finds_everything_on_its_device(name: str) -> None:
    for case in cases(name):
        if case.mode == "decode" or (case.mode, case.mask) == ("train", "padding"):
            check(case)


@pytest.mark.parametrize("name", [name for name in LAYERS if "flex" not in name])
def test_by_the_kernels_of_a_gpu_a_layer_does_the_work_that_it_claims(name: str) -> None:
    for case in cases(name):
        claim = layer_lookup.work_of(layer_lookup.claims_of_impl(name), case.mode)
        if claim is None or case.kv_len or case.mask != ("causal" if case.mode == "decode" else "none"):
            continue
        torch.set_grad_enabled(True)
        with AnotherDevice():
            seen = trace_call(build(case, seed=0), is_compared=False)  # no values there to compare
        assert seen.flops.work is not None, (case, seen.flops.unknown)
        assert seen.flops.work.full == 2 * claim(n=N, d=case.d_model, h=case.num_heads), case
        assert seen.facts["backend_fallback"] is None, case


@pytest.mark.parametrize(
    "case",
    [
        Case("attention.fused", N, 32, 2, mode="train", mask="padding", padding_fraction=0.5),
        Case("attention.packed", N, 32, 2, mode="forward", mask="causal", dtype="bfloat16"),
        Case("decoder.packed", N, 32, 2, mode="backward", mask="padding", padding_fraction=0.5),
        Case("decoder.packed", N, 32, 2, mode="decode", mask="causal"),
        Case("rnn.gru", N, 32, 1, mode="train", mask="padding", padding_fraction=0.5),
    ],
    ids=lambda case: f"{case} {case.mode}",
)
def test_a_layer_is_held_against_its_reference_on_its_device(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def check(what: str, got: Tensor, want: Tensor, limit: float, largest: float = 0.0, hint: str = "") -> float:
        compared.append(what)
        assert (got.device, want.device, got.shape) == (THERE, THERE, want.shape), what
        return 0.0

    # There are no values there.
    truth = Tensor.__bool__
    monkeypatch.setattr(Tensor, "__bool__", lambda tensor: not tensor.is_meta and truth(tensor))
    monkeypatch.setattr(torch, "equal", lambda one, other: True)
    monkeypatch.setattr("harness.core.trial.result_checks.largest_norm", lambda tensors: 1.0)
    monkeypatch.setattr("harness.core.trial.verify.has_drawn", lambda seed, device: True)
    for module in ("verify", "reuse_between_calls"):
        monkeypatch.setattr(f"harness.core.trial.{module}.check_error", check)
    with AnotherDevice():
        verify(replace(case, batch_size=2, device="cuda"), seed=0)
    assert compared


class FromTheCpu(nn.Module):
    """A layer with a mask that stays behind when it is moved."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.kept = torch.ones(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * self.kept


class BroughtOver(FromTheCpu):
    """A layer that sends its mask over in every call."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * self.kept.to(x)


class MadeInTheCall(FromTheCpu):
    """A layer that makes a mask on the CPU and sends it over, in every call."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * torch.ones(x.shape[-1]).to(x)


class AsksForANumber(FromTheCpu):
    """A layer whose call waits for the GPU."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight if x.abs().max().item() > 0 else x


@pytest.mark.parametrize(
    ("layer", "raised", "said"),
    [
        (FromTheCpu, OnTwoDevices, "aten::mul.Tensor gets tensors on cpu and meta"),
        (BroughtOver, OnTwoDevices, "aten::_to_copy takes something from the CPU within a call"),
        (MadeInTheCall, OnTwoDevices, "aten::ones makes something on the CPU within a call"),
        (AsksForANumber, RuntimeError, "item"),
    ],
)
def test_a_layer_that_left_something_on_the_cpu_is_found_out(
    layer: type[nn.Module], raised: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_lookup, "load_class", lambda impl: layer)
    with pytest.raises(raised, match=said):
        built_and_called(Case("own:Layer", N, 8, 1, device="cuda"))
