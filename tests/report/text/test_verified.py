"""What a verification has found, in lines."""

from typing import Any

import pytest

from harness.report.text.cautions import WIDTH, verification_lines, verification_summary
from harness.sweep_axes import Case

REASON = "gradient of projection.weight is off by 2.9e+00 of its norm, where rounding explains 1.9e-06 in this layer"
OK = {"status": "ok", "reason": None, "against": "NaiveReference", "tolerance": 2e-6, "output_error": 3e-7}
LONG = "a_package_of_mine.layers_of_attention:LearnedRelativePositionsWithForgetting"


def case(impl: str = "attention.naive", **change: Any) -> Case:
    return Case(**{"impl": impl, "seq_len": 64, "d_model": 64, "num_heads": 4, "batch_size": 2, **change})


WRONG = {"status": "incorrect", "reason": REASON}
FOUND = [
    (case(), OK),
    (case(mode="train"), {**OK, "gradient_error": 1e-6, "gradient_tolerance": 2e-6}),
    (case(mode="decode", mask="padding", padding_fraction=0.25), {"status": "unsupported", "reason": "has no padding"}),
    (case(LONG), WRONG),
    (case("rnn.elman"), {**OK, "against": "itself in float64", "output_error": 1e-9}),
]


def test_what_is_wrong_comes_first_with_its_case_and_its_reason_on_lines_of_their_own() -> None:
    lines = list(verification_summary(FOUND))
    assert lines[0] == LONG
    assert lines[1].strip() == "n=64 d=64 h=4 b=2: incorrect"
    assert " ".join(line.strip() for line in lines[2 : lines.index("")]) == REASON


def test_then_a_layer_has_a_line_with_how_its_cases_ended_and_its_largest_error() -> None:
    lines = list(verification_summary(FOUND))
    assert "attention.naive  2 ok, 1 unsupported; largest error 1.0e-06 of 2.0e-06" in lines
    assert "rnn.elman        1 ok; largest error 1.0e-09 of 2.0e-06" in lines
    assert lines[lines.index(LONG, 1) + 1] == "    1 incorrect"


def test_an_error_beside_a_wide_tolerance_is_not_the_largest() -> None:
    lenient = {**OK, "gradient_error": 1e-4, "gradient_tolerance": 1e-3}
    assert "attention.naive  1 ok; largest error 3.0e-07 of 2.0e-06" in verification_summary(
        [(case(mode="train"), lenient)]
    )


def test_it_says_which_layers_had_no_reference() -> None:
    assert list(verification_summary(FOUND))[-1] == "Without a reference, compared with itself in float64: rnn.elman."


def test_every_case_can_be_told_with_its_errors_or_its_reason() -> None:
    text = "\n".join(verification_lines(FOUND))
    assert "attention.naive n=64 d=64 h=4 b=2: ok\n    output 3.0e-07 of 2.0e-06, against Naive" in text
    assert "b=2 decode padding padding_fraction=0.25:\n    unsupported\n    has no padding" in text


@pytest.mark.parametrize("lines", [verification_summary(FOUND), verification_lines(FOUND)], ids=["summary", "each"])
def test_only_a_name_is_wider_than_a_terminal_of_80_columns_and_no_name_is_cut(lines: list[str]) -> None:
    for line in lines:
        assert len(line) <= WIDTH or len(line.split()) == 1


def test_control_characters_of_a_reason_are_written_out() -> None:
    text = "\n".join(verification_summary([(case(), {"status": "error", "reason": "a\x1b[31mb\nc"})]))
    assert "a\\x1b[31mb c" in text
