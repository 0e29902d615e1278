"""Scripts of kernels of packages, beside modules that have the names of these packages."""

from dataclasses import replace
from pathlib import Path

import pytest
from extras.export.test_script import run_of, run_scripts, script_of

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from impls.adapters.kernel_table import KERNELS

# Each kernel token after token. Its signature has the names that the package documents.
PACKAGES = """
import sys, types
import torch


def recurrent(q, k, v, log, beta=None, state=None):
    if beta is not None:
        q, k = (torch.nn.functional.normalize(one, dim=-1) for one in (q, k))
    found = []
    state = torch.zeros(*q[:, 0].shape, v.shape[-1], dtype=q.dtype) if state is None else state
    for t in range(q.shape[1]):
        state = state * log[:, t].exp()[..., None]
        new = v[:, t]
        if beta is not None:
            new = (new - (state * k[:, t, :, :, None]).sum(-2)) * beta[:, t, :, None]
        state = state + k[:, t, :, :, None] * new[:, :, None]
        found.append((state * q[:, t, :, :, None]).sum(-2) / q.shape[-1] ** 0.5)
    return torch.stack(found, 1), state


def linear_attn(q, k, v, scale=None, initial_state=None, output_final_state=False, normalize=True):
    q = q if scale is None else q * scale * q.shape[-1] ** 0.5
    y, state = recurrent(q, k, v, torch.zeros_like(q), state=initial_state)
    weight = (q * k.cumsum(1)).sum(-1, keepdim=True) / q.shape[-1] ** 0.5
    return (y / weight if normalize else y), state


def retention(q, k, v):
    decay = 1 - 2.0 ** (-5 - torch.arange(q.shape[2], dtype=q.dtype))
    return recurrent(q, k, v, decay.log()[:, None].expand(q.shape))


def simple_gla(q, k, v, g):
    return recurrent(q, k, v, g[..., None])


def chunk_gla(q, k, v, g):
    return recurrent(q, k, v, g)


def fused_recurrent_gla(q, k, v, gk=None):
    return recurrent(q, k, v, gk)


def delta_rule(q, k, v, beta, use_qk_l2norm_in_kernel=False):
    return recurrent(q, k, v, torch.zeros_like(q), beta) if use_qk_l2norm_in_kernel else (None, None)


def gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=False):
    return recurrent(q, k, v, g[..., None], beta) if use_qk_l2norm_in_kernel else (None, None)


def flash_attn_func(q, k, v, causal=False):
    parts = (one.transpose(1, 2) for one in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=causal, enable_gqa=True).transpose(1, 2)


def get_kernel(repository, version):
    assert repository in ("kernels-community/flash-attn2", "kernels-community/flash-attn3") and version == 1
    return types.SimpleNamespace(flash_attn_func=flash_attn_func)


class LowerTriangularMask:
    pass


def memory_efficient_attention(q, k, v, attn_bias=None):
    return flash_attn_func(q, k, v, causal=isinstance(attn_bias, LowerTriangularMask))


sys.modules["xformers"] = types.ModuleType("xformers")
sys.modules["xformers.ops"] = types.SimpleNamespace(
    memory_efficient_attention=memory_efficient_attention, LowerTriangularMask=LowerTriangularMask
)
sys.modules["kernels"] = types.SimpleNamespace(get_kernel=get_kernel)
for kind in ("linear_attn", "retention", "simple_gla", "gla", "delta_rule", "gated_delta_rule"):
    forms = {f"{form}_{kind}": globals().get(f"{form}_{kind}") or globals().get(kind)
             for form in ("chunk", "parallel", "fused_recurrent")}
    sys.modules[f"fla.ops.{kind}"] = types.SimpleNamespace(**forms)
sys.modules["fla"] = sys.modules["fla.ops"] = types.ModuleType("fla")
"""
MINE = """
import torch
from impls.adapters.kernels import log_decay


def mine(q, k, v, g):
    total = g.float().cumsum(1)
    scores = torch.einsum("bihe,bjhe->bhij", q * total.exp(), k * (-total).exp()).tril()
    return (torch.einsum("bhij,bjhe->bihe", scores, v.float()) / q.shape[-1] ** 0.5).to(q.dtype)


mine.inputs = {**dict.fromkeys("qkv", "b n h D"), "g": {"shape": "b n h D", "fill": log_decay}}
mine.causal = True
mine.reference = "fla.gla.chunk"
"""
FLASH = Case("sdpa.hub.flash2", 20, 16, 2, device="cuda", dtype="bfloat16")
# One kernel of the table for each form of call.
FORMS = {(kernel.called, kernel.gates, str(kernel.keywords)): name for name, kernel in reversed(KERNELS.items())}
KINDS = {
    **{
        name: [replace(FLASH, impl=name, mode="train" if KERNELS[name].trains else "forward")]
        for name in FORMS.values()
    },
    "xformers": [replace(FLASH, impl="attention.xformers", mode="train", mask="causal")],
    **{
        f"linear attention, {mode}": [replace(FLASH, impl="attention.linear.fla", mode=mode)]
        for mode in ("train", "decode")
    },
    "grouped heads": [replace(FLASH, num_kv_heads=1, mask="causal")],
    "two kernels": [replace(FLASH, impl=f"fla.gla.{form}") for form in ("chunk", "recurrent")],
    "beside a kernel of torch": [FLASH, replace(FLASH, impl="sdpa.fused")],
    "beside a function": [replace(FLASH, impl=one, mode="train") for one in ("mine:mine", "fla.gla.recurrent")],
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("own")
    (place / "mine.py").write_text(MINE)
    with (
        pytest.MonkeyPatch.context() as patch,
        Executor(seed=0, trial_s=1.0, timeout_s=60.0, memory_limit=None) as executor,
    ):
        patch.chdir(place)
        patch.syspath_prepend(str(place))
        stored = {kind: run_of(place / f"run {kind}", cases) for kind, cases in KINDS.items()}
        return {kind: script_of(run, [str(line.case) for line in run.lines], executor) for kind, run in stored.items()}


def test_each_kernel_of_the_table_runs_in_its_script_and_agrees(scripts: dict[str, str], tmp_path: Path) -> None:
    for kind, (error, printed) in run_scripts(scripts, tmp_path, PACKAGES).items():
        assert not error, (kind, error)
        assert "at n = 20" in printed


def test_a_script_imports_a_kernel_as_its_user_would(scripts: dict[str, str]) -> None:
    chunk, delta = scripts["fla.gla.chunk"], scripts["fla.gated_delta_rule.chunk"]
    assert "\nfrom fla.ops.gla import chunk_gla\n" in chunk
    assert '"fla.gla.chunk": lambda q, k, v, g: partial(chunk_gla, q, k, v, g=g),' in chunk
    assert "partial(fused_recurrent_gla, q, k, v, gk=g)" in scripts["two kernels"]
    assert "partial(chunk_gated_delta_rule, q, k, v, use_qk_l2norm_in_kernel=True, g=g, beta=beta)" in delta
    assert "Needs torch, fla, attn-harness." in chunk
    flash = scripts["sdpa.hub.flash2"]
    assert "\nfrom kernels import get_kernel\n" in flash
    assert "partial(get_kernel('kernels-community/flash-attn2', version=1).flash_attn_func, q, k, v)" in flash
    assert ".flash_attn_func, q, k, v, causal=True)" in scripts["grouped heads"]
