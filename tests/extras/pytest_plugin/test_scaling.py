"""What a test may ask of a layer of its own: exact facts, at a size and as laws."""

from pathlib import Path

import pytest
import torch
from extras.pytest_plugin.layers import (
    Attention,
    Averaging,
    AxisWithoutDefault,
    Broken,
    Outer,
    Steps,
    TwiceFrom200,
)
from syrupy import SnapshotAssertion

from harness.extras.pytest_plugin.scaling import LayerFactsOf, Scaling

OVER = (16, 32, 64)
REPEATS = f"{Path(__file__).parents[2] / 'own_layer' / 'repeats.py'}:Repeats"


def test_work_and_memory_are_asserted_exactly(scaling: Scaling) -> None:
    law = scaling(Attention, over=OVER, d_model=16)
    assert law.flops.at(seq_len=32) == 6 * 32 * 16**2 + 4 * 32**2 * 16
    assert law.memory.at(seq_len=64) == law.memory.values[64] <= 2**16
    assert law.memory.at(seq_len=32) < law.memory.at(seq_len=40) < law.memory.at(seq_len=64)
    assert law.flops.follows("6nd² + 4n²d")
    assert not law.flops.follows("6nd² + 4n²d + 1")


def test_laws_are_asserted_by_what_leads_and_by_exponents(scaling: Scaling) -> None:
    law = scaling(Attention, over=OVER, d_model=16)
    assert law.flops.law == "64 n² + 1,536 n"
    assert law.memory.is_quadratic
    assert not law.memory.is_linear
    assert 1 < law.memory.exponent < 2
    assert law.memory.exponent.lo == law.memory.exponent == law.memory.exponent.hi
    assert law.depth.is_constant
    assert law.depth.exponent == 0
    assert law.ops.is_constant


def test_a_law_may_be_along_another_axis_and_in_several(scaling: Scaling) -> None:
    law = scaling(Averaging, axis="d_model", over=OVER, seq_len=8)
    assert law.flops.exponent == 2
    both = scaling(Attention, over=OVER, d_model=(8, 16, 32))
    assert both.flops.law == "4 n²·d + 6 n·d²"
    assert both.flops.values[32, 16] == both.flops.at(seq_len=32, d_model=16)
    with pytest.raises(pytest.fail.Exception, match="say d_model="):
        both.flops.at(seq_len=32)


def test_a_law_may_be_along_an_axis_of_the_layers_own(scaling: Scaling) -> None:
    law = scaling(REPEATS, axis="times", over=(2, 3, 5), seq_len=16, d_model=8)
    assert law.flops.law == "2,048 r"
    assert law.flops.is_linear
    assert law.flops.exponent == 1
    assert law.flops.values == {2: 4096, 3: 6144, 5: 10240}
    assert law.flops.follows("2nrd²")
    assert not law.flops.follows("4nd²/r")  # no whole number at r = 3
    assert law.flops.at(times=7) == 2 * 16 * 7 * 64
    by_length = scaling(REPEATS, over=OVER, d_model=8)
    assert by_length.flops.follows("2nrd²")
    assert by_length.flops.at(seq_len=16, times=7) == 2 * 16 * 7 * 64
    with pytest.raises(pytest.fail.Exception, match="times has no usual sizes: give over=…"):
        scaling(REPEATS, axis="times")
    with pytest.raises(pytest.fail.Exception, match="did you mean 'times'"):
        scaling(REPEATS, axis="tims", over=(2, 3))


def test_counts_that_no_exact_law_gives_are_judged_by_their_exponent(scaling: Scaling) -> None:
    law = scaling(Steps, over=(64, 128, 256, 512), d_model=16)
    assert 0.5 < law.memory.exponent < 1.8
    assert len(law.memory.values) == 7  # the sizes in between were looked at
    with pytest.raises(pytest.fail.Exception, match=r"undetermined: .*its exponent is known, and more sizes may tell"):
        assert law.memory.is_linear


def test_a_law_says_from_which_size_on_it_holds(scaling: Scaling) -> None:
    law = scaling(TwiceFrom200, over=(32, 64, 128, 256, 512, 1024), d_model=16)
    assert law.flops.values == {n: 512 * n if n < 200 else 1024 * n for n in (32, 64, 128, 256, 512, 1024)}
    assert law.flops.law == "1,024 n from n = 256 on"
    assert "1,024 n from n = 256 on, exponent" in repr(law.flops)


def test_an_own_axis_without_a_default_is_named(scaling: Scaling) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"axes\['window'\] is 'w': it must be"):
        scaling(AxisWithoutDefault, axis="window", over=(2, 4, 8))


def test_the_facts_of_one_call(layer_facts: LayerFactsOf) -> None:
    facts = layer_facts(Averaging, seq_len=8, d_model=16)
    assert (facts.flops, facts.weights_bytes, facts.depth) == (2 * 16**2, 4 * (16**2 + 16), 3)
    assert facts.peak_bytes is not None
    assert facts.peak_bytes < 2**12
    assert layer_facts("attention.fused", seq_len=16, d_model=16).backend == "flash"


def test_a_layer_that_fails_fails_the_test_and_says_why(scaling: Scaling) -> None:
    said = "Broken at seq_len=16 d_model=8 num_heads=1: error: ValueError: this layer is broken"
    with pytest.raises(pytest.fail.Exception, match=said):
        scaling(Broken, over=OVER, d_model=8).flops.at(seq_len=16)


def test_what_a_layer_is_not_for_is_skipped(scaling: Scaling) -> None:
    assert scaling(Outer.OnlyShort, over=(4, 8, 16)).flops.is_constant
    with pytest.raises(pytest.skip.Exception, match=r"seq_len=32 .*: it is for short sequences"):
        assert scaling(Outer.OnlyShort, over=OVER).flops.is_constant


def test_a_device_that_there_is_not_is_skipped(layer_facts: LayerFactsOf) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(pytest.skip.Exception, match="torch sees no CUDA device here"):
        layer_facts(Averaging, device="cuda")


def test_a_slip_of_the_keyboard_is_one_line(scaling: Scaling, snapshot: SnapshotAssertion) -> None:
    told = []
    for words in (
        *({"axes": "seq_len"}, {"axis": "sequence"}, {"seq_len": 4}, {"over": (0, 4)}, {"precision": "fine"}),
        *({"mode": ("forward", "train")}, {"mask": "casual"}),
    ):
        with pytest.raises(pytest.fail.Exception) as raised:
            scaling(Averaging, **words)
        told.append(f"{words}\n  {raised.value}\n")
    assert "".join(told) == snapshot


def test_one_size_makes_no_law(scaling: Scaling) -> None:
    law = scaling(Averaging, over=[8], d_model=8)
    assert law.flops.at(seq_len=8) == 2 * 8**2
    with pytest.raises(pytest.fail.Exception, match="seq_len takes one value, and a law needs 3"):
        assert law.flops.exponent <= 1


def test_nothing_is_measured_that_nobody_asked_for(scaling: Scaling) -> None:
    law = scaling(Averaging, over=OVER, d_model=16)
    assert law.flops.is_constant
    assert repr(law.time) == "<time of Averaging: not measured>"
    assert repr(law.flops).startswith("<flops of Averaging: 512, exponent 0.00; by seq_len: 16: 512")
