"""What our layers cost beside the library calls that they wrap, and beside one another: ratios within one run.

    python -m pytest -s benchmarks/bench_layers.py

Sizes: d = 256, 8 heads, one sequence, float32, unless the environment says otherwise.
"""

import os
import shutil
from collections.abc import Callable

import pytest
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.bare import WRAPPED
from benchmarks.paired import ratio
from harness.core.model.sweep_axes import Case
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.workload import Workload, build

D, H = 256, 8
THREADS = len(os.sched_getaffinity(0))
PAIRS = int(os.environ.get("HARNESS_BENCH_PAIRS", "40"))
COMPILED = ("attention.compiled", "attention.flex")
# The compiler warns of its own parts.
pytestmark = pytest.mark.filterwarnings("ignore")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


def work(impl: str, n: int, d: int = D, batch: int = 1, mode: str = "forward") -> Workload:
    torch.set_grad_enabled(True)
    heads = 1 if impl.partition(".")[0] in ("rnn", "conv") else H
    return build(Case(impl, n, d, heads, batch_size=batch, threads=THREADS, mode=mode), seed=0)


def table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left")
    for column in columns:
        made.add_column(column, no_wrap=True)
    return made


def test_overhead_over_the_bare_library_call() -> None:
    shown = table("our layer / the bare call it wraps (to be reached: at most 1.01)", "impl", "n = 512", "n = 2048")
    for impl, bare in WRAPPED.items():
        if impl in COMPILED and shutil.which("g++") is None:
            continue
        cells = []
        for n in (512, 2048):
            torch.compiler.reset()
            ours = work(impl, n)
            cells.append(str(ratio(ours.call, bare(ours.layer, ours.x), PAIRS)))
        shown.add_row(impl, *cells)
    Console(width=120).print(shown)


def test_overhead_of_a_function_over_the_bare_call() -> None:
    shown = table("a function of q, k and v / the bare call (at most 1.01)", "mode", "n = 512", "n = 2048")
    for mode in ("forward", "train"):
        cells = []
        for n in (512, 2048):
            ours = work("torch.nn.functional:scaled_dot_product_attention", n, mode=mode)
            cells.append(str(ratio(ours.call, bare_attention(ours), PAIRS)))
        shown.add_row(mode, *cells)
    Console(width=120).print(shown)


def bare_attention(ours: Workload) -> Callable[[], torch.Tensor]:
    """What a script of a few lines calls, on the same tensors."""
    q, k, v = ours.inputs

    def train() -> torch.Tensor:
        q.grad = k.grad = v.grad = None
        y = scaled_dot_product_attention(q, k, v)
        y.backward(ours.gradient)
        return y

    return train if ours.gradient is not None else lambda: scaled_dot_product_attention(q, k, v)


@needs_compiler
def test_fused_beside_every_other_way_to_a_fused_kernel() -> None:
    sizes = (256, 512, 1024, 2048, 4096)
    shown = table("attention.fused / another (to be reached: at most 1)", "other", *(f"n = {n}" for n in sizes))
    for impl in ("attention.module", "attention.compiled", "attention.flex"):
        cells = []
        for n in sizes:
            torch.compiler.reset()
            cells.append(str(ratio(work("attention.fused", n).call, work(impl, n).call, PAIRS)))
        shown.add_row(impl, *cells)
    Console(width=160).print(shown)


def test_the_chunked_forms_memory_over_n() -> None:
    sizes = (256, 512, 1024, 2048)
    shown = table("peak bytes over nd words", "impl, mode", *(f"n = {n}" for n in sizes))
    for impl, mode in (
        ("attention.chunked", "forward"),
        ("attention.chunked", "train"),
        ("attention.fused", "forward"),
    ):
        cells = []
        for n in sizes:
            of = work(impl, n, mode=mode)
            of.call()
            of.forget()
            cells.append(f"{allocator_peak(of.call, 'cpu')[0] / (4 * n * D):.3f}")
        shown.add_row(f"{impl}, {mode}", *cells)
    Console(width=120).print(shown)


def test_mingru_as_a_scan_beside_its_loop_and_beside_nn_gru() -> None:
    shown = table(
        "times as fast as rnn.mingru.parallel is beside (Feng et al. 2024 on a T4, against a loop: 175 at n = 512)",
        *("d, batch, mode", "n", "rnn.mingru (loop)", "rnn.gru.torch (nn.GRU)"),
    )
    for d, batch in ((64, 1), (256, 1), (64, 16)):
        for mode in ("forward", "train"):
            for n in (512, 4096):
                pairs = max(4, PAIRS // 8) if n == 4096 else PAIRS // 2
                cells = []
                for other in ("rnn.mingru", "rnn.gru.torch"):
                    first, second = (work(impl, n, d, batch, mode) for impl in (other, "rnn.mingru.parallel"))
                    if mode == "forward":
                        torch.set_grad_enabled(False)
                    cells.append(str(ratio(first.call, second.call, pairs)))
                shown.add_row(f"{d}, {batch}, {mode}", str(n), *cells)
    Console(width=120).print(shown)
