"""A published setting measured as a user would: one's own, of two tiny layers."""

import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest
from cli.test_end_to_end import finish, harness

from harness.cli.commands import main

PAPER = """\
# @package _global_
defaults:
  - _self_
  - mine@_global_: full
impl: [attention.fused, rnn.elman]
d_model: 16
num_heads: 2
precision: {trial_s: 0.01, min_rounds: 1, max_rounds: 1, patience_s: 0}
paper:
  name: mine
  source: Somebody 2026, "Two layers"
  hardware: a machine
  setting: forward
  notes: [It is an <example>]
  tables:
    - title: Depth
      quantity: depth
      source: table 1
      second_hand: from hearsay
      along: seq_len
      columns: [8, 16, 32]
      rows: {rnn.elman: [13, 25, 50], rnn.elman / attention.fused: [2, 4, null]}
  claims:
    - {says: an RNN's operations grow as n, of: rnn.elman, quantity: depth, exponent: 1, within: 0.1}
    - {says: attention works less | everywhere, of: rnn.elman / attention.fused, quantity: work, at_least: 1}
"""
SCALE = "# @package _global_\nseq_len: [8, 16]\npaper: {scale: full}\n"


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run, and what was printed."""
    here = tmp_path_factory.mktemp("papers")
    (here / "conf" / "paper" / "mine").mkdir(parents=True)
    (here / "conf" / "paper" / "mine.yaml").write_text(PAPER)
    (here / "conf" / "paper" / "mine" / "full.yaml").write_text(SCALE)
    out, err = finish(harness("sweep", "paper=mine", "out=run", "--no-plots", "--config-dir", "conf", cwd=here), 0)
    assert err == ""
    return here / "run", out


def test_the_last_lines_name_the_report_and_every_table(swept: tuple[Path, str]) -> None:
    (tables,) = (line for line in swept[1].splitlines() if line.startswith("Tables: "))
    written = {path.name for path in swept[0].glob("*.csv")}
    assert set(tables.split()[1:]) == written
    assert "published.csv" in written
    assert "Report: run/report.html" in swept[1]


def test_the_reports_have_each_figure_beside_the_measured_one(swept: tuple[Path, str]) -> None:
    assert "## Published, and measured: mine (scale=full)" in (swept[0] / "report.md").read_text()
    assert 'id="published"' in (swept[0] / "report.html").read_text()


def test_the_figures_are_a_table_too(swept: tuple[Path, str]) -> None:
    table = pd.read_csv(swept[0] / "published.csv")
    assert table.published.tolist() == [13, 25, 50, 2, 4]
    assert table.measured_ended.tolist()[2] == "not measured"
    claims = pd.read_csv(swept[0] / "published_claims.csv")
    assert claims.verdict.tolist() == ["confirmed", "refuted"]
    assert (table.ratio.dropna() > 0).sum() == 4


def test_a_report_is_rebuilt_from_the_run_alone(
    swept: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(swept[0]), "-o", str(tmp_path / "again")]) == 0
    assert "Of 2 claims of the paper" in capsys.readouterr().out
    again = (tmp_path / "again" / "published.csv").read_bytes()
    assert again == (swept[0] / "published.csv").read_bytes()


def test_the_command_that_repeats_it_names_the_paper(swept: tuple[Path, str]) -> None:
    [line] = [line for line in (swept[0] / "report.md").read_text().splitlines() if line.startswith("Again: ")]
    command = shlex.split(line.removeprefix("Again: `").removesuffix("`"))
    assert command[:5] == ["python", "-m", "harness", "sweep", "paper=mine"]
    assert command[-2:] == ["--config-dir", "conf"]


def test_a_figure_that_is_put_right_needs_no_measuring(swept: tuple[Path, str], tmp_path: Path) -> None:
    here = tmp_path / "again"
    shutil.copytree(swept[0].parent, here)
    file = here / "conf" / "paper" / "mine.yaml"
    file.write_text(file.read_text().replace("[13, 25, 50]", "[13, 26, 50]"))
    rows = sorted((here / "run" / "rows").iterdir())
    finish(harness("sweep", "paper=mine", "out=run", "--no-plots", "--config-dir", "conf", cwd=here), 0)
    assert sorted((here / "run" / "rows").iterdir()) == rows
    assert pd.read_csv(here / "run" / "published.csv").published.tolist() == [13, 26, 50, 2, 4]


def test_a_paper_that_cannot_be_read_is_told_in_a_line(
    swept: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("rows", "machine.json"):
        (run / name).symlink_to(swept[0] / name)
    config = (swept[0] / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("quantity: work", "quantity: werk"))
    assert main(["report", str(run), "-o", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert "paper mine: attention works less | everywhere: quantity: unknown 'werk'; did you mean 'work'?" in err
    assert err.count("\n") == 1


def test_without_a_gpu_the_smaller_scale_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert main(["sweep", "paper=mingru2024", f"out={tmp_path / 'run'}"]) == 2
    assert "torch sees no CUDA device here; scale=cpu is for a machine without one" in capsys.readouterr().err
