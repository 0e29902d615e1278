"""The charts of a history as a reader sees them."""

from pathlib import Path

from extras.commits.histories import history, stepping
from study.report.html.conftest import Browser
from study.report.html.conftest import browser as browser

from harness.extras.commits.history_page import history_page


def test_the_labels_of_near_steps_do_not_overlap(browser: Browser, tmp_path: Path) -> None:
    text, _, _ = history_page(history(*stepping({10: 0.08, 12: -0.08, 14: 0.08, 34: -0.08}, 40)), 0.03)
    path = tmp_path / "history.html"
    path.write_text(text, encoding="utf-8")
    browser.open(path)
    boxes = browser.run(
        """
        const labels = [...document.querySelectorAll("#ratios-0 .annotation-text")];
        return labels.map((label) => label.getBoundingClientRect()).map((box) => [box.x, box.right, box.y, box.bottom]);
        """
    )
    assert len(boxes) == 4
    for at, (left, right, top, bottom) in enumerate(boxes):
        for other_left, other_right, other_top, other_bottom in boxes[:at]:
            assert right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top
    assert boxes[0][2] == boxes[3][2]  # far from the others, a label stands in the lowest row
    assert browser.complaints() == []
