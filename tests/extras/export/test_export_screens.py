"""What `export` prints, and what a report prints of an export."""

from pathlib import Path

import pytest
from attention_run import make_run
from screens import test_commands
from screens.test_commands import Screen
from screens.test_misuse import mistakes
from screens.text_file import titled, without_versions
from syrupy import SnapshotAssertion

screen = test_commands.screen
MISUSE = [
    *("export run", "export run --format pytest-benchmrk", "export x.json --format csv"),
    *("export run --format csv -o run", "export run --format csv -o run/config.yaml/x.csv"),
    "export run --format csv --case 'attention.fused n=64'",
]


def test_a_mistake_gets_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run")
    (tmp_path / "x.json").write_text('{"benchmarks": [')
    assert mistakes(MISUSE, tmp_path, capsys) == snapshot


def test_an_export_names_its_file_and_what_it_leaves_out(
    screen: Screen, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    make_run(tmp_path / "run")
    screens = {
        name: screen(f"export run --format {name} -o {name}") for name in ("github-action-benchmark", "csv", "parquet")
    }
    assert titled(screens) == snapshot


def test_a_report_of_a_pytest_benchmark_file_has_the_same_answer(
    screen: Screen, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    make_run(tmp_path / "run")
    screen("export run --format pytest-benchmark -o layers.json")
    printed = screen("report layers.json --no-plots -o made")
    written = without_versions((tmp_path / "made" / "report.md").read_text())
    assert titled({"terminal": printed, "report.md": written}) == snapshot
