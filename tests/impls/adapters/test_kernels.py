"""The kernels of the table, against packages that compute what the real ones document."""

import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from adapters.pretended import check_layout, install, later, take_on_the_cpu
from torch import Tensor

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial import accuracy
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.layer_protocol import unsupported_reason
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from impls.adapters import kernels
from impls.adapters.entries import entry_of
from impls.adapters.kernel_table import KERNELS, Kernel
from impls.registry import IMPLS

HUB = [name for name, kernel in KERNELS.items() if kernel.is_on_hub]
FLA = [name for name in KERNELS if name not in HUB]
FLASH2, FLASH3 = HUB
NO_BACKWARD = "fla.gated_delta_rule.recurrent"


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield
    kernels.find.cache_clear()
    kernels.is_loaded.cache_clear()


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    check_layout(q, k[:, :, :1].expand(-1, -1, q.shape[2], -1), v[:, :, :1].expand(-1, -1, q.shape[2], -1))
    k, v = (one.repeat_interleave(q.shape[2] // k.shape[2], 2) for one in (k, v))
    scores = torch.einsum("bihe,bjhe->bhij", q, k) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(later(q.shape[1], k.shape[1]), -torch.inf)
    return torch.einsum("bhij,bjhe->bihe", scores.softmax(-1), v)


def heads_first(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    return attention(*(one.transpose(1, 2) for one in (q, k, v)), causal).transpose(1, 2)


def get_kernel(repository: str, revision: str | None = None, version: int | None = None) -> SimpleNamespace:
    assert os.environ["HF_HUB_OFFLINE"] == "1"  # a measurement downloads nothing
    assert version == 1
    return {
        "kernels-community/flash-attn2": SimpleNamespace(
            flash_attn_func=lambda q, k, v, causal=False: attention(q, k, v, causal)
        ),
        "kernels-community/flash-attn3": SimpleNamespace(
            flash_attn_func=lambda q, k, v, causal=False: (attention(q, k, v, causal), None)
        ),
        "somebody/their-kernel": SimpleNamespace(attend=heads_first),
    }[repository]


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
def _packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both packages are installed, and their kernels run on a CPU."""
    install(monkeypatch, "kernels", get_kernel=get_kernel)
    for module in dict.fromkeys(KERNELS[name].source for name in FLA):
        functions = {
            kernel.function: BY_NAME.get(kernel.function) or BY_MODULE[module.rpartition(".")[2]]
            for kernel in KERNELS.values()
            if kernel.source == module
        }
        install(monkeypatch, module, **functions)
    take_on_the_cpu(monkeypatch, *map(layer_lookup.load_class, KERNELS))


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize(
    "given",
    [
        {"mode": "train"},
        {"mode": "train", "mask": "causal", "num_kv_heads": 1},
        {"mode": "train", "kv_len": 9},
        {"mode": "decode"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", HUB)
def test_a_kernel_of_the_hub_is_softmax_attention(name: str, given: dict[str, Any]) -> None:
    assert verify(Case(name, 13, 24, 3, batch_size=2, **given), seed=0)["against"] == "softmax_attention"


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("name", FLA)
def test_an_operation_computes_its_recurrence(name: str, mode: str) -> None:
    found = verify(Case(name, 13, 24, 3, batch_size=2, mode=mode), seed=0)
    assert found["against"] == KERNELS[name].reference.rpartition(":")[2]


@pytest.mark.parametrize("gate", [(), (2, 400, 3), (2, 400, 3, 8)], ids=["ungated", "head", "channel"])
def test_the_rows_of_a_recurrence_are_those_of_its_loop(gate: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(2, 400, 3, 8, dtype=torch.float64) for _ in "qkv"]
    tensors += [100 * kernels.log_decay(*gate).double()] if gate else []  # beyond the range of an exponential
    rows = torch.tensor([0, 1, 130, 399])
    torch.testing.assert_close(
        kernels.linear_recurrence(*tensors, rows=rows), kernels.recurrence(*tensors)[:, rows], atol=1e-12, rtol=1e-12
    )


def test_the_rows_of_retention_are_those_of_its_loop() -> None:
    q, k, v = (torch.randn(2, 40, 3, 8, dtype=torch.float64) for _ in "qkv")
    rows = torch.tensor([3, 39])
    torch.testing.assert_close(kernels.retention(q, k, v, rows), kernels.retention(q, k, v)[:, rows])


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize("mode", ["forward", "train"])
def test_a_mistake_in_late_tokens_of_an_operation_is_found(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("fla.linear_attn.chunk", 512, 24, 3, mode=mode)
    assert collect_metrics(case, 0, accuracy.measure_accuracy)["accuracy_by"] == "64 rows, linear_recurrence"
    right = kernels.find(case.impl)

    def late(*tensors: Tensor, **keywords: Any) -> tuple[Tensor, None]:
        y = right(*tensors, **keywords)[0]
        return torch.cat([y[:, :400], 1.5 * y[:, 400:]], 1), None

    install(monkeypatch, "fla.ops.linear_attn", chunk_linear_attn=late)
    kernels.find.cache_clear()
    with pytest.raises(WrongResult, match=r"output is off by .* \(64 rows\)"):
        collect_metrics(case, 0, accuracy.measure_accuracy)


@pytest.mark.parametrize(
    ("kernel", "against"),
    [
        (Kernel("somebody/their-kernel", "attend", "theirs", called="softmax_heads_first"), "softmax_attention"),
        (
            Kernel(
                *("fla.ops.newer", "newer_rule", "newer", "delta", "impls.adapters.kernels:recurrence"),
                gates=("beta",),
                keywords={"use_qk_l2norm_in_kernel": True},
            ),
            "recurrence",
        ),
    ],
    ids=lambda one: one.function if isinstance(one, Kernel) else "",
)
def test_a_line_in_the_table_is_enough_for_a_layer(
    monkeypatch: pytest.MonkeyPatch, kernel: Kernel, against: str
) -> None:
    install(monkeypatch, "kernels", get_kernel=get_kernel)
    install(monkeypatch, "fla.ops.newer", newer_rule=delta_rule)
    monkeypatch.setitem(KERNELS, "theirs", kernel)
    monkeypatch.setitem(IMPLS, "theirs", entry_of("theirs", kernel))
    assert unsupported_reason(layer_lookup.load_class("theirs"), Case("theirs", 13, 24, 3, device="cpu")) == (
        f"{kernel.project} computes on device=cuda alone"
    )
    take_on_the_cpu(monkeypatch, layer_lookup.load_class("theirs"))
    assert verify(Case("theirs", 13, 24, 3, batch_size=2, mode="train"), seed=0)["against"] == against


@pytest.mark.usefixtures("_packages")
def test_a_release_that_takes_heads_first_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def chunk_gla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, head_first: bool = True) -> tuple[Tensor, None]:
        return q, None

    install(monkeypatch, "fla.ops.gla", chunk_gla=chunk_gla)
    with pytest.raises(RuntimeError, match="pip install -U flash-linear-attention"):
        build(Case("fla.gla.chunk", 13, 24, 3), seed=0).call()


def refused(name: str, **changed: Any) -> str | None:
    given = {"d_model": 32, "num_heads": 4, "seq_len": 16, "device": "cuda", "dtype": "bfloat16", **changed}
    return unsupported_reason(layer_lookup.load_class(name), Case(impl=name, **given))


@pytest.mark.parametrize("name", KERNELS)
def test_without_the_package_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KERNELS[name]
    monkeypatch.setitem(sys.modules, kernel.package, None)
    assert refused(name) == f"{kernel.project} is not installed: pip install {kernel.project}"
    there = f"; there, first pip install {kernel.project}"
    assert refused(name, device="cpu") == f"{kernel.project} computes on device=cuda alone{there}"
    assert refused(name, dtype="float32") == f"{kernel.project} computes in float16 or bfloat16, not in float32"


def test_what_a_kernel_cannot_do_is_refused_in_a_line() -> None:
    assert refused(FLASH2, d_model=2048) == "flash attention has heads of 256 at most, not 512"
    assert refused(NO_BACKWARD, mode="train") == "the package has no backward pass of this operation"
    assert refused("fla.gla.chunk", seq_len=3) == "its kernels take at least as many tokens as heads"


def test_an_older_gpu_is_refused_with_what_the_kernel_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "kernels", get_kernel=get_kernel)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 6))
    assert refused(FLASH2) is None
    assert refused(FLASH3) == "its kernel needs a GPU of compute capability 9.0 or more"


@pytest.mark.parametrize("error", [ValueError, FileNotFoundError, ConnectionError])
def test_a_kernel_that_was_not_loaded_is_refused_with_the_command_that_loads_it(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_flash3(repository: str, version: int) -> SimpleNamespace:
        if repository == "kernels-community/flash-attn2":
            raise error(repository)
        return get_kernel(repository, version=version)

    install(monkeypatch, "kernels", get_kernel=only_flash3)
    call = "get_kernel('kernels-community/flash-attn2', version=1)"
    assert refused(FLASH2) == f'its kernel is not loaded: python -c "from kernels import get_kernel; {call}"'
    assert refused(FLASH3) is None
