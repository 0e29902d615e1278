"""Layers that cannot be measured here."""

from report.many import many_lines, without

from harness.report.absent import absent, told_together

IMPLS = ["rnn.gru", "attention.flash_attn", "attention.xformers"]


def test_absent_is_what_is_unsupported_in_every_case() -> None:
    lines = without(many_lines(IMPLS), IMPLS[1], "unsupported", "not installed")
    lines = without(lines, IMPLS[2], "unsupported", "too long", from_n=512)
    assert absent(lines) == {IMPLS[1]}
    assert absent(many_lines(IMPLS)) == set()
    assert absent(without(many_lines(IMPLS), IMPLS[0], "oom", "full")) == set()


def test_several_that_are_away_for_different_reasons_are_one_sentence() -> None:
    lines = without(many_lines(IMPLS), IMPLS[1], "unsupported", "needs a GPU")
    lines = without(lines, IMPLS[2], "unsupported", "not installed")
    others, said = told_together(lines)
    assert {line.impl for line in others} == {IMPLS[0]}
    assert said == "unsupported in every case: attention.flash_attn, attention.xformers: see report.md"


def test_one_reason_alone_is_left_to_its_remark() -> None:
    lines = without(many_lines(IMPLS), IMPLS[1], "unsupported", "not installed")
    assert told_together(lines) == (lines, "")
    alike = without(lines, IMPLS[2], "unsupported", "not installed")
    assert told_together(alike) == (alike, "")
