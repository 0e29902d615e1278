"""Layers that cannot be measured here."""

from study.report.many import many_lines, without

from harness.study.report.figure_panels import unsupported_layers

IMPLS = ["rnn.gru", "attention.flash_attn", "attention.xformers"]


def test_absent_is_what_is_unsupported_in_every_case() -> None:
    lines = without(many_lines(IMPLS), IMPLS[1], "unsupported", "not installed")
    lines = without(lines, IMPLS[2], "unsupported", "too long", from_n=512)
    assert unsupported_layers(lines) == {IMPLS[1]}
    assert unsupported_layers(many_lines(IMPLS)) == set()
    assert unsupported_layers(without(many_lines(IMPLS), IMPLS[0], "oom", "full")) == set()
