"""Every paper in conf/paper/ can be measured at each scale, and says where its figures are from."""

import re

import pytest
from rows import lines

from harness.core.config import compose
from harness.core.config.hydra_adapter import conf_directory
from harness.core.layers import layer_lookup
from harness.core.model.case_grid import grid
from harness.core.model.sweep_axes import Case
from harness.extras.papers.claims import measured_value
from harness.extras.papers.papers import Paper, paper_of
from impls.attention.fused import FlashAttention

NAMES = sorted(path.stem for path in (conf_directory() / "paper").glob("*.yaml"))
SCALES = [(name, path.stem) for name in NAMES for path in sorted((conf_directory() / "paper" / name).glob("*.yaml"))]


def asked(name: str, scale: str) -> tuple[Paper, list[Case]]:
    config = compose([f"paper={name}", f"scale={scale}"], for_sweep=True)
    cases = list(grid(config.axes, lambda impl: layer_lookup.registered(impl).has_heads, config.points))
    paper = paper_of({"paper": config.paper})
    assert paper is not None
    return paper, cases


def test_each_paper_has_its_own_sizes_and_some_for_a_machine_without_a_gpu() -> None:
    assert len(NAMES) >= 7
    assert [(name, scale) for name in NAMES for scale in ("cpu", "full")] == SCALES


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_it_says_where_it_is_from_on_what_it_was_measured_and_what_is_smaller_here(name: str, scale: str) -> None:
    paper, cases = asked(name, scale)
    assert (paper.name, paper.scale) == (name, scale)
    assert paper.source
    assert paper.hardware
    assert paper.setting
    assert bool(paper.differs) == (scale == "cpu")
    assert {case.device for case in cases} == {"cuda" if scale == "full" else "cpu"}


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_every_figure_and_claim_names_a_table_figure_or_section_or_the_report_of_a_user(name: str, scale: str) -> None:
    place = re.compile(r"\b(tables?|figures?|sections?|theorem) \d|appendix [A-Z]|second-hand: .+ issue \d")
    paper = asked(name, scale)[0]
    for one in (*paper.figures, *paper.claims):
        assert place.search(one.source), one


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_every_claim_is_of_cases_that_are_measured_and_every_figure_of_layers_that_are(name: str, scale: str) -> None:
    paper, cases = asked(name, scale)
    found = lines(cases, lambda case: 1.0, lambda case: 1)
    for claim in paper.claims:
        points = measured_value(found, claim.quantity, *claim.of, claim.at, claim.against)
        assert points, claim.says
        assert claim.kind not in ("exponent", "overtakes") or len({one.line.seq_len for one in points}) > 1, claim.says
    impls = {case.impl for case in cases}
    assert {layer for one in paper.figures for layer in (one.of, one.over) if layer} <= impls
    somewhere = [measured_value(found, one.quantity, one.of, one.over, one.at) for one in paper.figures]
    assert any(somewhere) or not paper.figures


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_flashattention_is_measured_by_the_flash_kernel_and_not_by_whichever_torch_chooses(
    name: str, scale: str
) -> None:
    about = compose([f"paper={name}", f"scale={scale}"], for_sweep=True).yaml
    impls = {case.impl for case in asked(name, scale)[1]}
    if "FlashAttention" in about:
        assert not impls & {"sdpa.fused", "attention.fused"}
        assert impls & {"sdpa.flash", "attention.fused.flash"}


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_the_flash_kernel_supports_every_case_of_a_paper(
    name: str, scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)  # an old GPU here says nothing about the paper
    for case in asked(name, scale)[1]:
        if case.impl in ("sdpa.flash", "attention.fused.flash"):
            assert FlashAttention.supports(case) is None, case


def test_what_is_claimed_is_a_ratio_or_a_shape_and_never_a_time() -> None:
    for name in NAMES:
        for claim in asked(name, "full")[0].claims:
            assert claim.of[1] or claim.kind == "exponent", claim.says
