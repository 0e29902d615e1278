"""The files that pictures are written to."""

from dataclasses import replace
from pathlib import Path

from report.many import many_lines

from harness.report.plots.draw import draw


def test_shares_of_real_tokens_have_files_of_their_own(tmp_path: Path) -> None:
    lines = many_lines(["rnn.gru"])
    draw(tmp_path, [replace(line, mask="padding", real_share=share) for line in lines for share in (0.25, 0.75)], {})
    pictures = {path.name for path in tmp_path.glob("time*.png")}
    assert pictures == {"time_real_share0.25.png", "time_real_share0.75.png"}
