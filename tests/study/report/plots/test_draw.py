"""The files that pictures are written to."""

from dataclasses import replace
from pathlib import Path

from rows import lines

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.study.report.plots.all_plots import draw


def a_few() -> list[CaseResult]:
    return lines(
        [Case("rnn.gru", n, 8, 1) for n in (8, 16)], lambda case: 1e-6 * case.seq_len, lambda case: case.seq_len
    )


def test_each_mode_has_pictures_of_its_own(tmp_path: Path) -> None:
    draw(tmp_path, [replace(line, mode=mode) for line in a_few() for mode in ("forward", "train")], {})
    assert {path.name for path in tmp_path.glob("time*.png")} == {"time_forward.png", "time_train.png"}


def test_fractions_of_padding_have_files_of_their_own(tmp_path: Path) -> None:
    draw(
        tmp_path,
        [replace(line, mask="padding", padding_fraction=share) for line in a_few() for share in (0.25, 0.75)],
        {},
    )
    pictures = {path.name for path in tmp_path.glob("time*.png")}
    assert pictures == {"time_padding_fraction0.25.png", "time_padding_fraction0.75.png"}
