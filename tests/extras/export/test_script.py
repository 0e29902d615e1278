"""A case as a script for an issue: every kind of it runs without the harness, away from the user's files."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows import measured

from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.results import row_files, run_directory
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.core.run.executor import Executor
from harness.extras.export import script
from harness.extras.export.formats import export
from harness.extras.export.script import chosen

OWN = """
import torch
from helpers_of_it import scaled
from torch import nn

N = 3  # the script has an N, too
UNUSED = open("/nowhere") if False else None


def f(q, k, v):
    return scaled(q @ k.transpose(-2, -1)).softmax(-1) @ v


class Mine(nn.Module):
    input_width = 3
    reference = "sdpa.naive"
    claims = {"work": "4n²d"}

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads

    def forward(self, qkv):
        b, n, _ = qkv.shape
        q, k, v = qkv.view(b, n, N, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        return f(q, k, v).transpose(1, 2).reshape(b, n, -1)


class Wrong(Mine):
    def forward(self, qkv):
        return 1.01 * super().forward(qkv)


class Alone(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.inner = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.inner(x))


class UnderAutocast(Alone):
    allowed_error = 0.05

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.inner(x).float()


class Masks(Alone):
    causal = True

    def forward(self, x):
        q = self.inner(x)[:, None]
        mask = torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
        return nn.functional.scaled_dot_product_attention(q, q, x[:, None], attn_mask=mask)[:, 0]
"""
FUNCTIONS = """
from functools import partial

import torch
import torch.nn.functional as F
from helpers_of_it import scaled
from impls.sdpa.paged import paged, paged_reference


def softmax(q, k, v, is_causal=False):
    scores = scaled(q @ k.transpose(-2, -1))
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    return scores.softmax(-1) @ v


def tokens_first(q, k, v, causal=True):
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    return softmax(q, k, v, is_causal=causal).transpose(1, 2), None


tokens_first.layout = "bnhd"
no_dropout = partial(F.scaled_dot_product_attention, dropout_p=0.0)


def wrong(q, k, v):
    return 1.01 * softmax(q, k, v)


def twice(q, k, v):
    return softmax(q, k, v) + softmax(q, k, v)


def doubled(q, k, v):
    return 2 * softmax(q, k, v)


doubled.reference = twice


def masked(q, k, v, attn_mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


def added(q, k, v, attn_mask=None, bias=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def _prepare(q, k, v, attn_mask=None):
    return {} if attn_mask is None else {"bias": torch.zeros(attn_mask.shape).to(q.dtype).masked_fill(~attn_mask, -1e9)}


added.prepare = _prepare


def windowed(q, k, v, window=4):
    apart = torch.arange(q.shape[2])[:, None] - torch.arange(q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(apart >= 0) & (apart < window))


def window_of(q, k, v, window=4):
    apart = torch.arange(q.shape[2])[:, None] - torch.arange(q.shape[2])
    return scaled(q @ k.transpose(-2, -1)).masked_fill((apart < 0) | (apart >= window), -torch.inf).softmax(-1) @ v


def wider(q, k, v, window=4):
    return windowed(q, k, v, window + 1)


for one in (windowed, wider):
    one.axes = {"window": ("w", 4)}
    one.causal = True
    one.reference = window_of


def alone(q, k, v):
    return softmax(q, k, v)


alone.reference = None


def short(q, k, v):
    y = softmax(q, k, v)
    y[:, :, 256:] *= 1.1
    return y


def told_nothing(q, k, v):
    return softmax(q, k, v, is_causal=True)


def causal_by_nature(q, k, v):
    return softmax(q, k, v, is_causal=True)


causal_by_nature.causal = True
causal_by_nature.reference = told_nothing


def decay(x, dt, n=None, *, scale):
    return torch.cumsum(x * dt[..., None], 1) * scale


def ones(*shape):
    return torch.ones(shape)


decay.inputs = {
    "x": "b n h D",
    "dt": {"shape": "b n h", "fill": "positive"},
    "n": {"shape": "b+1", "fill": "cumulative lengths"},
    "scale": {"shape": "1", "fill": ones, "dtype": "float32", "grad": False},
}
decay.causal = True
unnamed = softmax
built = torch.nn.Identity()


def packed(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False):
    assert max_seqlen_q == max_seqlen_k == cu_seqlens_q.diff().max()
    ends, found = cu_seqlens_q.tolist(), []
    for a, b in zip(ends, ends[1:]):
        part = (one[None, a:b].transpose(1, 2) for one in (q, k, v))
        found.append(softmax(*part, is_causal=causal)[0].transpose(0, 1))
    return torch.cat(found)


def about(q, k, v):
    return 1.05 * softmax(q, k, v)


about.allowed_error = 0.1


def packed_too(q, k, v, cu_seqlens, causal=False):
    return packed(q, k, v, cu_seqlens, cu_seqlens, cu_seqlens.diff().max(), cu_seqlens.diff().max(), causal)


packed_too.reference = tokens_first


def of_model(module, query, key, value, attention_mask, scaling=1.0, dropout=0.0):
    return softmax(query, key, value).transpose(1, 2), None


def pages(q, k_cache, v_cache, lengths, block_table=None, page_size=16):
    return paged(q, k_cache, v_cache, lengths, block_table, page_size)


pages.decodes = True
pages.lengths_as = "paged"
pages.axes = paged.axes
pages.inputs = paged.inputs
pages.prepare = paged.prepare
pages.reference = paged_reference
"""
HELPERS = "def scaled(scores):\n    return scores / SCALE\n\n\nSCALE = 8**0.5\n"
OTHER = OWN.replace("scaled(q @", "scaled(1.0 * q @")
PACKAGE = "import helpers_of_it\nfrom torch import nn\n\n\nclass Uses(nn.Module):\n    def __init__(self, d_model):\n"
PACKAGE += "        super().__init__()\n\n    def forward(self, x):\n        return helpers_of_it.scaled(x)\n"

FUSED = Case("attention.fused", 20, 16, 2)
PACKED = replace(FUSED, impl="attention.packed")


def function(name: str, **given: Any) -> Case:
    return replace(FUSED, impl=f"functions:{name}", **given)


# Every kind of script, as the cases that it is of.
KINDS = {
    "against its reference": [FUSED],
    "two layers": [FUSED, PACKED],
    "two head counts": [FUSED, replace(FUSED, num_heads=4)],
    "train": [replace(FUSED, mode="train"), replace(PACKED, mode="train")],
    "backward, causal": [replace(FUSED, mode="backward", mask="causal")],
    "decode": [replace(FUSED, mode="decode", mask="causal")],
    "decode, two layers": [replace(one, mode="decode", mask="causal") for one in (FUSED, PACKED)],
    "decode, step by step": [Case("rnn.elman", 20, 16, 1, mode="decode", mask="causal")],
    "cross-attention": [replace(FUSED, kv_len=12), replace(PACKED, kv_len=12)],
    "masks in a layout of its own": [replace(FUSED, impl="attention.module", mask="causal")],
    "grouped heads": [replace(FUSED, num_kv_heads=1)],
    "options of the registry": [replace(FUSED, impl="attention.window"), FUSED],
    "bfloat16": [replace(FUSED, impl="sdpa.flash", dtype="bfloat16", mask="causal")],
    "a module of torch": [Case("rnn.lstm.torch", 20, 16, 1)],
    "scans": [Case("rnn.linear_scan", 20, 16, 1, mode="train"), Case("rnn.mingru.parallel", 20, 16, 1, mode="train")],
    "a GPU": [replace(FUSED, device="cuda", dtype="bfloat16"), replace(PACKED, device="cuda", dtype="bfloat16")],
    "a kernel of a package": [replace(FUSED, impl="attention.flash_attn", device="cuda:1", dtype="bfloat16")],
    "a file": [replace(FUSED, impl="./mine_one.py:Mine"), replace(FUSED, impl="sdpa.fused")],
    "two files with the same names": [replace(FUSED, impl=f"./mine_{one}.py:Mine") for one in ("one", "two")],
    **{f"a block, {one}": [replace(FUSED, impl=one)] for one in ("encoder.window", "encoder6.linear.parallel")},
    "two blocks, train": [replace(FUSED, impl=f"encoder.{one}", mode="train") for one in ("fused", "packed")],
    "a decoder over a source": [replace(FUSED, impl="decoder.linear.chunked")],
    "a decoder decodes": [replace(FUSED, impl="decoder.fused", mode="decode", mask="causal")],
    "a function": [function("softmax")],
    "a function of torch": [replace(FUSED, impl="torch.nn.functional:scaled_dot_product_attention", mask="causal")],
    "a function with arguments": [function("no_dropout", mask="causal", mode="train")],
    "outliers": [replace(FUSED, inputs="outliers", kv_len=12)],
    "outliers of a function": [function("softmax", inputs="outliers")],
    **{
        f"{one}, {mode}": [replace(FUSED, impl=one, mode=mode, mask="causal")]
        for one, mode in {
            "linear.ssd.chunked": "train",
            "linear.mlstm.chunked": "backward",
            "linear.rwkv7.chunked": "decode",
            "attention.latent": "decode",
            "attention.block_sparse": "train",
            "attention.window.global": "train",
        }.items()
    },
    "two functions": [function("softmax"), replace(FUSED, impl="./functions.py:softmax")],
    "a function beside a layer": [function("softmax", mask="causal"), replace(FUSED, impl="sdpa.fused", mask="causal")],
    "a layer beside a function, train": [
        replace(FUSED, impl=one, mode="train", mask="causal") for one in ("sdpa.naive", "functions:tokens_first")
    ],
    "a layer beside a function, backward": [
        replace(FUSED, impl=one, mode="backward") for one in ("functions:softmax", "sdpa.flash")
    ],
    "two layouts": [function(one, mode="train", mask="causal") for one in ("softmax", "tokens_first")],
    "two layouts, backward": [function(one, mode="backward") for one in ("tokens_first", "softmax")],
    "a causal function whose reference takes no mask": [function("causal_by_nature", mask="causal")],
    "checked at n too": [function("softmax", seq_len=300), function("alone", seq_len=300)],
    "not checked at n": [Case("rnn.mingru.parallel", 8192, 16, 1)],
    "checked with itself at n": [function("decay", seq_len=8192)],
    "a function's mask": [function("masked", mode="train", mask="causal")],
    "a mask in a function's own form": [function("added", mask="causal")],
    "a function decodes": [function("softmax", mode="decode", mask="causal", batch_size=2)],
    "keys of a source": [function("masked", kv_len=30, num_kv_heads=2)],
    "packed sequences": [function("packed", batch_size=2, mask="causal", mode="train")],
    "packed sequences of unequal lengths": [
        replace(FUSED, impl=one, batch_size=3, seq_len=300, lengths="zipf", mask="padding")
        for one in ("sdpa.varlen", "sdpa.document_mask")
    ],
    "nested": [replace(FUSED, impl="sdpa.nested", batch_size=2, lengths="zipf", mask="padding")],
    "a paged cache": [replace(FUSED, impl="sdpa.paged", batch_size=2, mode="decode", mask="causal")],
    "a paged cache of unequal lengths": [
        replace(FUSED, impl="sdpa.paged", batch_size=3, mode="decode", lengths="zipf", options="page_size=4")
    ],
    "a paged cache, a function": [
        replace(FUSED, impl=one, batch_size=3, mode="decode", lengths="zipf")
        for one in ("functions:pages", "sdpa.paged")
    ],
    "the longest of unequal lengths": [function("packed", batch_size=3, lengths="zipf", mask="padding")],
    **{f"an approximation, {mode}": [function("about", mode=mode)] for mode in ("forward", "train")},
    **{
        f"under autocast, {mode}": [Case("mine_one:UnderAutocast", 20, 16, 1, mode=mode)]
        for mode in ("forward", "train", "backward")
    },
    **{f"a float32 mask, {mode}": [Case("mine_one:Masks", 48, 16, 1, mode=mode)] for mode in ("forward", "train")},
    "described inputs": [function("decay", mode="train", dtype="bfloat16")],
    "a function and its reference in a file": [replace(FUSED, impl="./functions.py:doubled")],
    "two values of an option": [function("windowed"), function("windowed", options="window=5")],
    "a reference of one side": [function("softmax"), function("alone")],
    "two decoders, each with a reference": [
        replace(FUSED, num_kv_heads=one, mode="decode", mask="causal") for one in (1, 2)
    ],
    "the second GPU, a function": [function("softmax", device="cuda:1", dtype="bfloat16")],
    "a module": [Case("mine_one:Alone", 20, 16, 1, mode="train")],
    "a module that is imported whole": [Case("whole:Uses", 20, 16, 1)],
}
# Scripts that fail, each with what it prints of the layer that is wrong.
WRONG = {
    "a wrong layer": [replace(FUSED, impl="sdpa.fused"), replace(FUSED, impl="mine_one:Wrong")],
    "a wrong first side": [replace(FUSED, impl="mine_one:Wrong"), replace(FUSED, impl="sdpa.fused")],
    "a wrong option": [function("wider", options=f"window={one}") for one in (3, 5)],
    "wrong beyond 256 tokens": [function("short", seq_len=300)],
}
PRINTED = {
    "a wrong layer": "mine_one:Wrong: off by 1.0e-02 of the norm of the reference in float64",
    "a wrong first side": "mine_one:Wrong: off by 1.0e-02 of the norm of the reference in float64",
    "a wrong option": "functions:wider window=3: off by 4.4e-01 of the norm of the reference of functions:wider",
    "wrong beyond 256 tokens": "of the norm of the reference in float64 at n = 300; allowed: 1.0e-03",
}
RUNNER = """
import contextlib, io, json, runpy, sys, types
import torch

sys.modules["harness"] = None  # importing it fails
kernel = types.ModuleType("flash_attn")
kernel.flash_attn_func = lambda q, k, v, causal=False: torch.nn.functional.scaled_dot_product_attention(
    *(one.transpose(1, 2) for one in (q, k, v)), is_causal=causal).transpose(1, 2)
ended = {}
for path in sys.argv[1:]:
    torch.set_grad_enabled(True)
    sys.modules["flash_attn"] = kernel if "flash_attn" in open(path).read() else None
    error = ""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}"
    ended[path.removesuffix(".py")] = error, printed.getvalue()
print(json.dumps(ended))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("own")
    for name, text in {"mine_one": OWN, "mine_two": OTHER, "helpers_of_it": HELPERS}.items():
        (place / f"{name}.py").write_text(text)
    (place / "whole.py").write_text(PACKAGE)
    (place / "functions.py").write_text(FUNCTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "path", [str(place), *sys.path])
        yield place


@pytest.fixture(scope="module")
def executor(place: Path) -> Iterator[Executor]:
    with Executor(seed=0, trial_s=1.0, timeout_s=60.0, memory_limit=None) as executor:
        yield executor


def run_of(path: Path, cases: list[Case]) -> StoredRun:
    machine = {"python": "3.11.7", "cpu": {"model": "EPYC"}, "torch": {"version": "2.13.0"}, "kernel": "Linux 6.1"}
    run_directory.create(path, compose([]).yaml, machine)
    writer = row_files.RowWriter(path)
    for number, case in enumerate(cases, 1):
        for one in measured(case, 0.001 * number, 4096):
            writer.write({**one, **({"own_axes": '{"window": ["w", 4]}'} if "windowed" in case.impl else {})})
    writer.close()
    return read_run_directory(path)


def script_of(stored: StoredRun, cases: Sequence[str], executor: Executor) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "short_executor", lambda: nullcontext(executor))
        return export(stored, "script", cases).content.decode()


@pytest.fixture(scope="module")
def scripts(place: Path, executor: Executor) -> dict[str, str]:
    found = {}
    for kind, cases in {**KINDS, **WRONG}.items():
        stored = run_of(place / f"run {kind}", cases)
        found[kind] = script_of(stored, [str(case) for case in cases], executor)
    return found


@pytest.fixture(scope="module")
def ended(scripts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    return run_scripts(scripts, tmp_path_factory.mktemp("away"))


def run_scripts(scripts: dict[str, str], away: Path, packages: str = "") -> dict[str, tuple[str, str]]:
    """The error of each script, and what it prints. All run in one process, away from the layers' files.

    `packages` is Python that puts modules into `sys.modules` beforehand.
    """
    for kind, text in scripts.items():
        assert "min_run_time=0.2" in text
        quick = text.replace("min_run_time=0.2", "min_run_time=1e-4").replace('"cuda"', '"cpu"')
        (away / f"{kind}.py").write_text(quick)
    (away / "runner").write_text(packages + RUNNER)
    command = [sys.executable, "-I", "runner", *(f"{kind}.py" for kind in scripts)]
    done = subprocess.run(command, cwd=away, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_runs_without_the_harness(kind: str, ended: dict[str, tuple[str, str]]) -> None:
    error, printed = ended[kind]
    assert not error
    assert f"at n = {KINDS[kind][0].seq_len}" in printed


@pytest.mark.slow
def test_scripts_of_functions_of_transformers_run(place: Path, executor: Executor, tmp_path: Path) -> None:
    """They look up in the layer, which is passed to them, whether it is causal and how many heads share a key."""
    pytest.importorskip("transformers")
    modes = {"eager": "train", "sdpa": "train", "flex": "forward"}  # flex has no backward pass on a CPU
    cases = [replace(FUSED, impl=f"sdpa.transformers.{name}", mode=mode) for name, mode in modes.items()]
    stored = [run_of(place / case.impl, [case]) for case in cases]
    scripts = {one.lines[0].impl: script_of(one, [], executor) for one in stored}
    assert [error for error, _ in run_scripts(scripts, tmp_path).values()] == ["", "", ""]


def test_the_measured_figures_and_versions_are_a_comment(scripts: dict[str, str]) -> None:
    text = scripts["two layers"]
    assert f"# {FUSED}: 1.00 ms" in text
    assert f"# {PACKED}: 2.00 ms" in text
    assert "# The first takes 0.50 times as long as the second" in text
    assert "torch 2.13.0, Python 3.11.7, EPYC, 1 thread, Linux 6.1" in text
    assert "Six runs of one script gave ratios of 0.92 to 0.95, and six sweeps 0.89 to 0.93" in text


def test_a_script_without_masks_has_about_thirty_lines_beside_the_layers(scripts: dict[str, str]) -> None:
    frame = scripts["against its reference"].partition("B, N, D, DTYPE")[2]
    assert len([line for line in frame.splitlines() if line]) <= 34


def test_a_script_of_a_function_calls_it_by_its_name_and_is_short(scripts: dict[str, str]) -> None:
    text = scripts["a function"]
    assert '"functions:softmax": lambda q, k, v: partial(softmax, q, k, v),' in text
    assert scripts["a function and its reference in a file"].count("def softmax") == 1
    assert "**_prepare(q, k, v, attn_mask=causal(n))" in scripts["a mask in a function's own form"]
    frame = text.partition("N, DTYPE, DEVICE")[2]
    assert len([line for line in frame.splitlines() if line]) <= 26


def test_a_script_holds_the_users_own_files_and_imports_the_projects_layers(scripts: dict[str, str]) -> None:
    text = scripts["two files with the same names"]
    assert OWN.strip() in text
    assert OTHER.strip() in text
    assert HELPERS.strip() in text
    assert "\nfrom mine_one import Mine\nfrom mine_two import Mine as Mine_2\n" in text
    assert "Needs torch, attn-harness, and what its own modules import." in text
    assert "import FusedAttention\n" in scripts["two layers"]
    assert "MODULES" not in scripts["two layers"]
    assert "Needs torch, attn-harness." in scripts["a kernel of a package"]


@pytest.mark.parametrize(
    ("found", "doubt"),
    [
        ({"threads_after": 0.98}, "suspect: threads of the layer run on after a call has returned"),
        ({"status": "incorrect", "reason": "it is off"}, "incorrect: it is off"),
    ],
)
def test_a_script_says_first_and_last_which_time_is_not_right(
    found: dict, doubt: str, tmp_path: Path, executor: Executor
) -> None:
    stored = run_of(tmp_path / "run", [FUSED, PACKED])
    wrong = replace(stored.lines[0], prepare_s=0.4, **found)
    lines = replace(stored, lines=[wrong, stored.lines[1]])
    text = script_of(lines, [str(FUSED), str(PACKED)], executor).splitlines()
    assert text[2].startswith(f"# attention.fused n=20 d=16 h=2: {doubt}, prepare takes 400 ms, 1.00 ms")
    assert text[-1] == f"print('Do not quote attention.fused, which is {doubt}')"
    assert not any("times as long as the second" in line for line in text)


def test_a_layer_whose_name_begins_like_the_reference_is_decoded_step_by_step(scripts: dict[str, str]) -> None:
    found = re.search(r"if (name.*):  # all tokens at once", scripts["decode, step by step"])
    assert found is not None
    names = ("reference", "reference of own:Layer", "reference_layers:Mine")
    assert [eval(found[1], {"name": name}) for name in names] == [True, True, False]


def test_a_script_says_where_it_did_not_check(ended: dict[str, tuple[str, str]]) -> None:
    assert "Not checked at n = 8192: a float64 reference" in ended["not checked at n"][1]
    assert "in float64 at n = 8192; allowed" in ended["checked with itself at n"][1]


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_layer_fails_in_its_script(kind: str, ended: dict[str, tuple[str, str]]) -> None:
    error, printed = ended[kind]
    assert error.startswith("AssertionError")
    assert PRINTED[kind] in printed.splitlines()[-1]


def test_sides_of_one_function_are_named_by_what_differs_and_have_a_reference_each(scripts: dict[str, str]) -> None:
    text = scripts["two values of an option"]
    assert '("functions:windowed window=5", "reference of functions:windowed window=5")]:' in text
    assert '"reference of functions:windowed window=5": lambda q, k, v: partial(window_of, q, k, v, window=5),' in text
    assert "of the norm of the {truth} in float64" in text
    assert "of the norm of itself in float64" in scripts["a module"]


REFUSED = {
    "one of sdpa.* with the same heads": [function("softmax"), FUSED],
    "unless it is one of sdpa": [function("softmax", num_kv_heads=1), replace(FUSED, impl="sdpa.fused")],
    "take the same input:": [replace(FUSED, impl="attention.naive"), replace(FUSED, impl="sdpa.fused")],
    "the same inputs": [function("softmax"), function("decay")],
    "export its class": [function("built")],
    "as by a model, and a script has none": [function("of_model")],
    r"each packed sequence in \(b, h, n, head_dim\) only": [function("packed_too")],
    "no padded batch": [replace(FUSED, mask="padding", padding_fraction=0.5)],
    "differ in seq_len": [FUSED, replace(PACKED, seq_len=40)],
    "the same one": [FUSED, FUSED],
    "at most twice": [FUSED, PACKED, replace(FUSED, impl="attention.naive")],
    "cannot be exported: ModuleNotFoundError": [Case("gone:Layer", 20, 16, 1)],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_no_script_can_hold_is_refused_with_the_reason(place: Path, executor: Executor, reason: str) -> None:
    cases = REFUSED[reason]
    stored = run_of(place / f"refused {reason[:9]}", list(dict.fromkeys(cases)))
    with pytest.raises(UsageError, match=reason):
        script_of(stored, list(map(str, cases)), executor)


def test_a_case_is_chosen_by_the_words_of_its_name(tmp_path: Path) -> None:
    causal, longer = replace(FUSED, mask="causal"), replace(FUSED, seq_len=40, mask="causal")
    stored = run_of(tmp_path / "run", [FUSED, causal, longer, replace(longer, impl="attention.packed")])
    assert chosen(stored, "attention.fused n=20").case == FUSED
    assert chosen(stored, "attention.fused n=20 causal").case == causal
    assert chosen(stored, "attention.fused seq_len=40 mask=causal").case == longer
    assert chosen(stored, "packed").case.impl == "attention.packed"
    theirs = run_of(tmp_path / "theirs", [replace(FUSED, impl=f"mine:{name}") for name in ("Thread", "Thread2")])
    assert chosen(theirs, "Thread n=20").case.impl == "mine:Thread"
    lines = [replace(line, own_axes='{"times": ["r", 3]}') for line in stored.lines[:1]]
    own = replace(stored, lines=[*lines, replace(lines[0], options="times=5")])
    assert chosen(own, "times=3 n=20") == own.lines[0]
    assert chosen(own, "times=5 n=20") == own.lines[1]
    with pytest.raises(UsageError, match=r"2 cases that 'n=40' describes: .* as by \"--case 'attention.fused n=40"):
        chosen(stored, "n=40")
    with pytest.raises(UsageError, match=r"4 cases that 'attention' describes: .* of .*'attention.packed n=40"):
        chosen(stored, "attention")
    with pytest.raises(UsageError, match=r"did you mean 'attention\.fused'"):
        chosen(stored, "attention.fusd n=20")
    with pytest.raises(UsageError, match="no key 'seq_length'"):
        chosen(stored, "seq_length=20")


def test_without_a_description_the_only_case_that_can_run_is_chosen(tmp_path: Path) -> None:
    stored = run_of(tmp_path / "run", [FUSED, PACKED])
    with pytest.raises(UsageError, match=r"has 2 cases: choose one, as by \"--case 'attention.fused n=20"):
        chosen(stored, "")
    cannot = [replace(line, status="unsupported") for line in stored.lines]
    assert chosen(replace(stored, lines=[stored.lines[0], cannot[1]]), "").case == FUSED
    with pytest.raises(UsageError, match="no case that can run"):
        chosen(replace(stored, lines=cannot), "")
