"""FLOPs without a claimed polynomial: those of chunks and of a masked product."""

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import Observation, trace_call
from harness.core.trial.workload import build
from impls.attention.entries import LINEAR
from impls.registry import IMPLS

CHUNK = 64


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for impl in LINEAR:
        monkeypatch.setitem(IMPLS, impl.name, impl)


def observed(impl: str, n: int, d: int, h: int, mode: str = "forward", **more: str) -> Observation:
    torch.set_grad_enabled(True)
    return trace_call(build(Case(impl, n, d, h, mode=mode, **more), seed=0))


def flops(impl: str, n: int, d: int, h: int, mode: str = "forward", **more: str) -> int:
    work = observed(impl, n, d, h, mode, **more).flops.work
    assert work is not None
    return work.flops


@pytest.mark.parametrize(("mode", "times"), [("forward", 1), ("train", 3), ("backward", 2)])
@pytest.mark.parametrize(("n", "d", "h"), [(64, 8, 2), (192, 12, 1), (256, 16, 16)])
def test_whole_chunks_do_the_work_that_is_written_there(n: int, d: int, h: int, mode: str, times: int) -> None:
    once = 8 * n * d * d + 4 * CHUNK * n * d + 4 * n * d * d // h
    assert flops("attention.linear.chunked", n, d, h, mode) == times * once


def test_a_part_of_a_chunk_costs_as_much_as_a_whole_one_but_for_the_projections() -> None:
    part, whole = (flops("attention.linear.chunked", n, 8, 2) - 8 * n * 8 * 8 for n in (65, 128))
    assert part == whole


def test_chunks_need_no_more_steps_one_after_another_however_many_there_are() -> None:
    assert len({observed("attention.linear.chunked", n, 8, 2).facts["depth"] for n in (128, 256, 1024)}) == 1


@pytest.mark.parametrize("n", [16, 100])
def test_under_a_causal_mask_the_parallel_form_does_the_work_of_packed_attention(n: int) -> None:
    of_both = [flops(impl, n, 8, 2, mask="causal") for impl in ("attention.linear.parallel", "attention.packed")]
    assert of_both == [8 * n * 8 * 8 + 4 * n * n * 8] * 2


@pytest.mark.parametrize("impl", [impl.name for impl in LINEAR])
def test_a_token_is_decoded_at_the_same_cost_after_few_as_after_many(impl: str) -> None:
    assert flops(impl, 2, 8, 2, "decode", mask="causal") == flops(impl, 500, 8, 2, "decode", mask="causal")
