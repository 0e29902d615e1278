"""The operations of flash-linear-attention against modules with its signatures, which compute them all at once."""

import sys
from typing import Any

import pytest
import torch
from adapters.pretended import check_layout, install, take_on_the_cpu
from torch import Tensor

from harness.sweep_axes import Case
from harness.trial.layer_protocol import unsupported_reason
from harness.trial.verify import verify
from harness.trial.workload import build
from impls.adapters.entries import FLA_OPERATIONS
from impls.adapters.fla_operations import OPERATIONS, FlaOperation, ForwardOnly
from impls.registry import IMPLS

NAMES = [impl.name for impl in FLA_OPERATIONS]


def weights(q: Tensor, k: Tensor, log: Tensor | None) -> Tensor:
    """q_i·k_j times the decay from j to i, (b, h, n, n), for j ≤ i; `log` (b, n, h, 1 or head_dim) is of each step."""
    total = torch.zeros_like(q) if log is None else log.expand_as(q).cumsum(1)
    return torch.einsum("bihe,bjhe->bhij", q * total.exp(), k * (-total).exp()).tril()


def by_weights(q: Tensor, k: Tensor, v: Tensor, log: Tensor | None) -> tuple[Tensor, None]:
    check_layout(q, k, v)
    return torch.einsum("bhij,bjhe->bihe", weights(q, k, log), v) / q.shape[-1] ** 0.5, None


def linear_attn(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, normalize: bool = True
) -> tuple[Tensor, None]:
    assert not normalize
    return by_weights(q, k, v, None)


def retention(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> tuple[Tensor, None]:
    log = (1 - 2 ** (-5 - torch.arange(q.shape[2], dtype=q.dtype))).log()
    return by_weights(q, k, v, log[None, None, :, None])


def simple_gla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float | None = None) -> tuple[Tensor, None]:
    return by_weights(q, k, v, g[..., None])


def chunk_gla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float | None = None) -> tuple[Tensor, None]:
    return by_weights(q, k, v, g)


def fused_recurrent_gla(q: Tensor, k: Tensor, v: Tensor, gk: Tensor | None = None) -> tuple[Tensor, None]:
    return by_weights(q, k, v, gk)


def gated_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor, use_qk_l2norm_in_kernel: bool = False
) -> tuple[Tensor, None]:
    """Yang et al. 2024, "Gated Delta Networks", with the pseudo-values of all tokens from one triangular system."""
    assert use_qk_l2norm_in_kernel
    q, k = (one / one.norm(dim=-1, keepdim=True) for one in (q, k))
    log, by_head = None if g is None else g[..., None], beta.transpose(1, 2)[..., None]  # (b, h, n, 1)
    system = torch.eye(q.shape[1], dtype=q.dtype) + (by_head * weights(k, k, log)).tril(-1)
    pseudo = torch.linalg.solve_triangular(system, by_head * v.transpose(1, 2), upper=False)  # (b, h, n, head_dim)
    return (weights(q, k, log) @ pseudo).transpose(1, 2) / q.shape[-1] ** 0.5, None


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, use_qk_l2norm_in_kernel: bool = False
) -> tuple[Tensor, None]:
    return gated_delta_rule(q, k, v, None, beta, use_qk_l2norm_in_kernel)


BY_NAME = {"chunk_gla": chunk_gla, "fused_recurrent_gla": fused_recurrent_gla}
BY_MODULE: dict[str, Any] = {
    "linear_attn": linear_attn,
    "retention": retention,
    "simple_gla": simple_gla,
    "delta_rule": delta_rule,
    "gated_delta_rule": gated_delta_rule,
}


@pytest.fixture
def _fla(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (*BY_MODULE, "gla"):
        names = [name for name, operation in OPERATIONS.items() if operation.module == module]
        functions = {name: BY_NAME.get(name) or BY_MODULE[module] for name in names}
        install(monkeypatch, f"fla.ops.{module}", **functions)
    take_on_the_cpu(monkeypatch, FlaOperation, ForwardOnly)


@pytest.mark.usefixtures("_fla")
@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("name", NAMES)
def test_an_operation_computes_its_recurrence(name: str, mode: str) -> None:
    found = verify(Case(name, 13, 24, 3, batch_size=2, mode=mode), seed=0)
    assert found["against"] == "Recurrence"


@pytest.mark.usefixtures("_fla")
def test_a_release_that_takes_heads_first_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def heads_first(q: Tensor, k: Tensor, v: Tensor, g: Tensor, head_first: bool = True) -> tuple[Tensor, None]:
        return q, None

    install(monkeypatch, "fla.ops.gla", chunk_gla=heads_first)
    with pytest.raises(RuntimeError, match="pip install -U flash-linear-attention"):
        build(Case("fla.gla.chunk", 13, 24, 3), seed=0)


def refused(name: str, **changed: Any) -> str | None:
    layer_class = ForwardOnly if name == "fla.gated_delta_rule.recurrent" else FlaOperation
    return unsupported_reason(layer_class, Case(name, 16, 32, 4, **{"device": "cuda", "dtype": "bfloat16", **changed}))


@pytest.mark.parametrize("name", NAMES)
def test_without_the_package_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fla", None)
    project = "flash-linear-attention"
    assert refused(name) == f"{project} is not installed: pip install {project}"
    assert refused(name, device="cpu") == f"{project} computes on device=cuda alone"
    assert refused(name, dtype="float32") == f"{project} computes in float16 or bfloat16, not in float32"


def test_what_an_operation_cannot_do_is_refused_in_a_line() -> None:
    assert refused("fla.gated_delta_rule.recurrent", mode="train") == (
        "the package has no backward pass of this operation"
    )
    reason = unsupported_reason(FlaOperation, Case("fla.gla.chunk", 3, 32, 4, device="cuda", dtype="bfloat16"))
    assert reason == "its kernels take at least as many tokens as heads"


def test_every_operation_in_the_table_is_a_layer() -> None:
    assert sorted(IMPLS[name].options["operation"] for name in NAMES) == sorted(OPERATIONS)
    for name in NAMES:
        operation = OPERATIONS[IMPLS[name].options["operation"]]
        assert IMPLS[name].target.endswith("FlaOperation" if operation.trains else "ForwardOnly")
        assert IMPLS[name].reference_options == {"kind": operation.kind}
