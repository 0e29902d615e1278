"""How far the times of all published settings are from the true ones, on a simulated GPU; no clock.

    python -m pytest -s benchmarks/bench_simulated_papers.py

Each paper's layers and modes at small sizes. To be reached: errors below 1 %.
"""

from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from simulated_cuda.test_paper import summary_with_errors

PAPERS = sorted(file.stem for file in (Path(__file__).parents[1] / "conf" / "paper").glob("*.yaml"))


def test_every_paper(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = Table(title="Times on a simulated GPU over the true ones", title_justify="left")
    for heading in ("paper", "cases timed", "other cases", "largest error"):
        table.add_column(heading, justify="left" if heading == "paper" else "right")
    errors = {}
    for paper in PAPERS:
        summary = summary_with_errors(tmp_path_factory.mktemp(paper), f"paper={paper}", "points=null", "dtype=bfloat16")
        timed = summary.error.notna()
        errors[paper] = summary.error.abs().max()
        table.add_row(paper, str(timed.sum()), str((~timed).sum()), f"{errors[paper]:.4%}")
    Console(width=100).print(table)
    assert max(errors.values()) < 0.01
