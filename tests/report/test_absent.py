"""Layers that cannot be measured here."""

from report.many import many_lines, without

from harness.report.text.cautions import unsupported_layers, unsupported_sentences

IMPLS = ["rnn.gru", "attention.flash_attn", "attention.xformers"]


def test_absent_is_what_is_unsupported_in_every_case() -> None:
    lines = without(many_lines(IMPLS), IMPLS[1], "unsupported", "not installed")
    lines = without(lines, IMPLS[2], "unsupported", "too long", from_n=512)
    assert unsupported_layers(lines) == {IMPLS[1]}
    assert unsupported_layers(many_lines(IMPLS)) == set()
    assert unsupported_layers(without(many_lines(IMPLS), IMPLS[0], "oom", "full")) == set()


def test_several_that_are_away_for_different_reasons_are_one_sentence() -> None:
    lines = without(many_lines(IMPLS), IMPLS[1], "unsupported", "needs a GPU")
    lines = without(lines, IMPLS[2], "unsupported", "not installed")
    others, said = unsupported_sentences(lines)
    assert {line.impl for line in others} == {IMPLS[0]}
    assert said == "unsupported in every case: attention.flash_attn, attention.xformers: see report.md"


def test_one_reason_alone_is_left_to_its_remark() -> None:
    lines = without(many_lines(IMPLS), IMPLS[1], "unsupported", "not installed")
    assert unsupported_sentences(lines) == (lines, "")
    alike = without(lines, IMPLS[2], "unsupported", "not installed")
    assert unsupported_sentences(alike) == (alike, "")
