"""How a run's lines fall into pictures."""

from rows import lines, usual_lines

from harness.core.model.sweep_axes import Case
from harness.study.report.figure_panels import panel_settings


def test_there_is_a_panel_for_each_width_and_number_of_heads() -> None:
    (setting,) = panel_settings(usual_lines())
    assert [(panel.d_model, panel.num_heads) for panel in setting.panels] == [(128, 2), (128, 8), (256, 2), (256, 8)]
    assert setting.name == ""


def test_a_layer_without_heads_stands_in_every_panel_of_its_width() -> None:
    (setting,) = panel_settings(usual_lines())
    for panel in setting.panels:
        assert panel.impls() == ["attention.fused", "attention.naive", "rnn.torch"]
        assert {line.d_model for line in panel.of("rnn.torch")} == {panel.d_model}
        assert len(panel.of("rnn.torch")) == 6


def test_layers_without_heads_alone_have_one_panel_a_width() -> None:
    cases = [Case("rnn.elman", n, d, 1) for n in (8, 16) for d in (4, 8)]
    (setting,) = panel_settings(lines(cases, lambda _: 1.0, lambda _: 1))
    assert [(panel.d_model, panel.num_heads) for panel in setting.panels] == [(4, 1), (8, 1)]


def test_attention_measured_at_one_head_stands_in_the_panel_of_one_alone() -> None:
    cases = [Case("attention.fused", n, 16, 1) for n in (8, 16)] + [Case("attention.naive", n, 16, 2) for n in (8, 16)]
    (setting,) = panel_settings(lines(cases, lambda _: 1.0, lambda _: 1))
    assert [(panel.num_heads, panel.impls()) for panel in setting.panels] == [
        (1, ["attention.fused"]),
        (2, ["attention.naive"]),
    ]


def test_modes_and_dtypes_are_never_in_one_picture_and_name_what_tells_them_apart() -> None:
    cases = [Case("rnn.elman", 8, 4, 1, mode=mode, threads=t) for mode in ("forward", "train") for t in (1, 2)]
    assert [s.name for s in panel_settings(lines(cases, lambda _: 1.0, lambda _: 1))] == [
        "forward_threads1",
        "forward_threads2",
        "train_threads1",
        "train_threads2",
    ]
