"""What `check --exact` catches of what is planted in a layer between baseline and check, and what it says of it.

Nothing is timed; the figures repeat on any machine with the same torch.
"""

import sys
from io import StringIO
from pathlib import Path

import planted_regressions as planted
import pytest
from rich.console import Console
from rich.table import Table

from harness.core.config import compose
from harness.core.model.sweep_axes import Case
from harness.study.check.baseline import Baseline
from harness.study.check.check import Remeasurement, judge_baseline
from harness.study.check.check_rules import Outcome, Verdict, exit_status
from harness.study.check.reporters import alike_outcomes

CASES = [Case(planted.IMPL, n, 64, 4) for n in (64, 128, 256, 512, 1024)]
UNCHANGED = "nothing: the layer as it was"


def test_planted_regressions_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    table = Table(title="check --exact, after each change of the layer's file", title_justify="left")
    for heading in ("planted", "exit status", "caught by", "what it says"):
        table.add_column(heading, overflow="fold")
    measured = Remeasurement(compose([]), tmp_path, Console(file=StringIO()), timed=False)
    with measured.session:

        def take(text: str) -> Baseline:
            planted.rewrite(tmp_path, text)
            measured.session.executor.code[planted.IMPL] = {}  # whose files may change here
            return measured.take(CASES, tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}")

        was = take(planted.UNCHANGED)
        for name, text in {UNCHANGED: planted.UNCHANGED, **planted.PLANTED}.items():
            found = judge_baseline(was, take(text), CASES, timed=False)
            assert exit_status(found) == (0 if name == UNCHANGED else 1), name
            for number, (quantity, said) in enumerate(_caught(found)):
                table.add_row(*((name, str(exit_status(found))) if number == 0 else ("", "")), quantity, said)
            table.add_section()
    Console(width=150, file=sys.stdout).print(table, markup=False)


def _caught(found: list[Outcome]) -> list[tuple[str, str]]:
    """(quantity, sentence at the largest size) for each quantity that got worse."""
    groups = alike_outcomes([one for one in found if one.verdict is Verdict.WORSE])
    return [(group[-1].quantity, group[-1].reason) for group in groups] or [("nothing", f"all {len(found)} passed")]
