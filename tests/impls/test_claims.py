"""What each layer computes is what it claims, to the last digit."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from ladder import BLOCKS, FUNCTIONS, LAYERS, VARIED, can, case_of
from rows import lines

from harness.core.layers import layer_lookup
from harness.core.model.own_axes import (
    axes_text,
    declared_axes,
    letters_of_texts,
    option_defaults,
    without_default_sizes,
)
from harness.core.model.polynomial import parse
from harness.core.model.sweep_axes import Case
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.counts.collect import Observation, collect_metrics, trace_call
from harness.core.trial.counts.flops import claimed_work
from harness.core.trial.workload import build
from harness.study.claims.claim_rules import CONFIRMED, judge_memory
from impls.registry import IMPLS
from impls.registry_entry import KINDS

Size = tuple[int, int, int, int]
# (b, n, d, h): one head and one token among them, sizes that are no powers of two, n on either side of d.
SIZES = [(2, 1, 8, 4), (3, 7, 12, 3), (1, 5, 48, 4), (2, 33, 24, 4), (1, 130, 16, 1)]
MODES = ("forward", "train", "backward", "decode")
# A token more is a whole pass under a causal mask, of which the kernel does no more than the mask leaves.
CAUSAL_STEPS = ("attention.uncached",)


def observed(impl: str, b: int, n: int, d: int, h: int, mode: str) -> Observation:
    torch.set_grad_enabled(True)
    return trace_call(build(case_of(impl, n, d, h, batch_size=b, mode=mode), seed=0))


def loops_over_tokens(impl: str) -> bool:
    """Whether each token takes a step of its own, by the claim: a call of many tokens then takes long to observe."""
    depth = layer_lookup.claims_of_impl(impl)["depth"]
    return bool(depth(n=2, d=1) > depth(n=1, d=1)) and "chunked" not in impl


def heads_of(impl: str, size: Size) -> int:
    return size[3] if IMPLS[impl].has_heads else 1


def claimed(names: list[str], modes: tuple[str, ...] = MODES) -> list[tuple[str, str]]:
    """Each layer and each mode that it can be asked for and claims its work in."""
    return [
        (name, mode)
        for name in names
        for mode in modes
        if can(name, mode=mode) and layer_lookup.work_of(layer_lookup.claims_of_impl(name), mode) is not None
    ]


def unlike_its_claim(impl: str, mode: str, sizes: Sequence[Size]) -> dict[Size, tuple[float, float]]:
    """What was counted, with and without what a mask leaves out, at those of the sizes where it is not as claimed."""
    claim = layer_lookup.work_of(layer_lookup.claims_of_impl(impl), mode)
    assert claim is not None
    masked = layer_lookup.load_class(impl).__dict__.get("causal", False) or (impl in CAUSAL_STEPS and mode == "decode")
    found = {}
    for b, n, d, h in sizes:
        work = observed(impl, b, n, d, h, mode).flops.work
        assert work is not None
        if work.full != b * claim(n=n, d=d, h=h) or not (work.flops == work.full or masked):
            found[b, n, d, h] = (work.full, work.flops)
    return found


@pytest.mark.parametrize(("impl", "mode"), claimed(LAYERS))
def test_the_flops_are_the_claimed_work_times_the_batch(impl: str, mode: str) -> None:
    most = 50 if loops_over_tokens(impl) else 200
    sizes = [size for size in SIZES if can(impl, seq_len=size[1], d_model=size[2], num_heads=heads_of(impl, size))]
    sizes = [size for size in sizes if size[1] <= most]
    assert len(sizes) >= 3  # as many as a claim has terms
    assert unlike_its_claim(impl, mode, sizes) == {}


@pytest.mark.parametrize("mode", ["forward", "train", "decode"])
@pytest.mark.parametrize(
    ("impl", "options"),
    [
        *(("linear.ssd.recurrent", f"state={s}") for s in (3, 80)),
        *(("linear.ssd.chunked", f"chunk={c}+state={s}") for c, s in ((5, 3), (50, 80))),
        *(("linear.gated_delta.chunked", f"chunk={c}") for c in (5, 50)),
        *(("linear.mlstm.chunked", f"chunk={c}") for c in (5, 50)),
        *(("linear.rwkv7.recurrent", f"rank={r}") for r in (3, 40)),
        *(("linear.rwkv7.chunked", f"chunk={c}+rank={r}") for c, r in ((5, 3), (50, 40))),
        *(("attention.chunked", f"block={b}") for b in (3, 50)),
        *(("attention.block_sparse", f"block={b}") for b in (3, 50)),
        *(("attention.latent", f"latent={m}+rope={p}") for m, p in ((3, 2), (20, 6))),
        *(("conv.conv1d", f"kernel_size={k}") for k in (1, 40)),
        *(("encoder6.packed", f"layers={layers}") for layers in (1, 3)),
        *(("attention.window", f"reach={r}") for r in (3, 50)),
        *(("attention.window.global", f"global_tokens={k}+reach={r}") for k, r in ((2, 3), (20, 50))),
    ],
)
def test_claims_in_the_letters_of_a_layers_own_axes_hold_at_other_values(impl: str, options: str, mode: str) -> None:
    case = case_of(impl, 33, 8, 2, mode=mode, options=options)
    torch.set_grad_enabled(True)
    work, claimed_facts = trace_call(build(case, seed=0)).flops.work, claimed_work(case)
    assert work is not None
    assert work.flops == claimed_facts["flops_claimed"] > 0
    assert claimed_facts["own_axes"]


@pytest.mark.parametrize(
    ("impl", "axis", "term"),
    [
        ("attention.window", "reach", "rhn"),
        ("attention.block_sparse", "block", "Bhn"),
        ("attention.linear.chunked", "chunk", "chn"),
        ("linear.gated_delta.chunked", "chunk", "chn"),
        ("linear.mlstm.chunked", "chunk", "chn"),
        ("linear.rwkv7.chunked", "chunk", "chn"),
        ("linear.ssd.recurrent", "state", "sn"),
    ],
)
def test_memory_is_of_the_claimed_order_along_an_own_axis_and_not_without_its_letter(
    impl: str, axis: str, term: str
) -> None:
    text = axes_text(layer_lookup.load_class(impl))
    sizes = {"n": (512, 1024, 2048), "d": (16, 32, 64), "h": (1, 2, 4), axis: (16, 32, 64)}
    largest = {name: values[-1] for name, values in sizes.items()}
    peaks = {}
    for at in [largest, *({**largest, name: value} for name, values in sizes.items() for value in values[:-1])]:
        case = case_of(impl, at["n"], at["d"], at["h"], options=without_default_sizes(text, f"{axis}={at[axis]}"))
        torch.set_grad_enabled(True)
        peaks[case] = allocator_peak(build(case, seed=0).call, "cpu")[0]
    found = [replace(line, own_axes=text) for line in lines(peaks, lambda case: 1e-3, peaks.__getitem__)]
    claim = layer_lookup.claims_of_impl(impl, found[0])["memory"]
    without = parse(IMPLS[impl].memory.replace(f" + {term}", "").replace(f"{term} + ", ""), letters_of_texts([text]))
    assert len(without.terms) == len(claim.terms) - 1
    assert judge_memory(found, claim).verdict == CONFIRMED
    assert judge_memory(found, without).verdict != CONFIRMED


@pytest.mark.parametrize(
    ("impl", "work"),
    [
        ("torch.nn.functional:scaled_dot_product_attention", 4 * 12 * 20 * 16),
        # Queries and outputs are of 12 tokens, keys and values of 20: 2d² for each.
        ("attention.packed", 4 * 12 * 16**2 + 4 * 20 * 16**2 + 4 * 12 * 20 * 16),
        ("attention.fused", 4 * 12 * 16**2 + 4 * 20 * 16**2 + 4 * 12 * 20 * 16),
    ],
)
def test_the_flops_over_a_source_are_those_of_both_lengths(impl: str, work: int) -> None:
    assert collect_metrics(Case(impl, 12, 16, 4, batch_size=2, kv_len=20), seed=0)["flops"] == 2 * work


def test_the_registry_has_the_axes_that_classes_declare() -> None:
    names = [*LAYERS, *FUNCTIONS, *BLOCKS]
    stated = {name: dict(declared_axes(layer_lookup.load_class(name))) for name in names}
    assert stated == {name: IMPLS[name].axes for name in names}


def test_every_keyword_of_a_layer_that_is_a_size_has_a_letter() -> None:
    for name in [*LAYERS, *BLOCKS]:
        layer = layer_lookup.load_class(name)
        sizes = {keyword for keyword, usual in option_defaults(layer).items() if usual and usual.isdecimal()}
        assert sizes == set(declared_axes(layer)), name


@pytest.mark.parametrize(("options", "known"), [("none", True), ("attention_options=null", False)])
def test_a_keyword_without_a_letter_leaves_no_formula(options: str, known: bool) -> None:
    facts = collect_metrics(case_of("encoder.packed", 33, 8, 2, options=options), seed=0)
    assert facts["flops_claimed"] == (facts["flops"] if known else None)


@pytest.mark.parametrize(("impl", "mode"), claimed(BLOCKS))
def test_the_flops_of_a_block_are_its_claimed_sum_too(impl: str, mode: str) -> None:
    assert unlike_its_claim(impl, mode, [(3, 7, 16, 4), (1, 40, 8, 4)]) == {}


@pytest.mark.parametrize("impl", [name for name in VARIED if "depth" in layer_lookup.claims_of_impl(name)])
def test_the_depth_of_a_forward_pass_is_of_the_claimed_order(impl: str) -> None:
    claim = layer_lookup.claims_of_impl(impl)["depth"]
    lengths = (16, 32, 64) if loops_over_tokens(impl) else (128, 256, 512)
    depths = [observed(impl, 1, n, 8, 4, "forward").facts["depth"] for n in lengths]
    first, second = depths[1] - depths[0], depths[2] - depths[1]
    if any(term.log for term in claim.terms):
        assert first == second > 0
    elif claim(n=2, d=1) > claim(n=1, d=1):
        assert second == 2 * first > 0
    else:
        assert first == second == 0


def test_every_claim_can_be_read_and_every_kind_is_a_row_of_table_1() -> None:
    assert [impl for impl in IMPLS if not layer_lookup.claims_of_impl(impl)] == []
    assert {impl.kind for impl in IMPLS.values()} <= {"", *KINDS}


def test_the_family_of_a_layer_is_the_first_part_of_its_name() -> None:
    assert [name for name, impl in IMPLS.items() if name.partition(".")[0] != impl.family] == []
