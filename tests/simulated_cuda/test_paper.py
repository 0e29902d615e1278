"""Published settings with device=cuda, on a simulated GPU of which the true costs are known."""

from pathlib import Path

import pandas as pd
import pytest
from simulated_cuda.commands import GPU, NO_PLOTS, ONE_THREAD, TWO_ROUNDS, harness, true_costs

from harness.core.model.sweep_axes import AXES, Case

pytestmark = pytest.mark.slow
SMALL = ("scale=cpu", "seq_len=16", "d_model=16", "num_heads=2", "batch_size=1", "device=cuda", ONE_THREAD, NO_PLOTS)


def summary_with_errors(cwd: Path, *settings: str) -> pd.DataFrame:
    """The summary of a sweep, with the relative `error` of each time. A loop of many launches is timed as a graph."""
    ended = harness("sweep", *settings, *SMALL, *TWO_ROUNDS, "out=run", cwd=cwd, settings=GPU)
    assert (ended.status, ended.err) == (0, ""), ended.out
    summary = pd.read_csv(cwd / "run" / "summary.csv")
    timed = summary[summary.status == "ok"]
    lines = [{name: line[name] for name in AXES if pd.notna(line.get(name))} for line in timed.to_dict("records")]
    true = pd.DataFrame(true_costs(map(Case.from_dict, lines), cwd, GPU), index=timed.index)
    true_s = true.graph_s.where(timed.gpu_time_by == "graph", true.cold_s)
    return summary.assign(error=timed.time_s / true_s - 1)


@pytest.mark.parametrize(
    ("paper", "cases"),
    [
        ("vaswani2017_table1", 6),
        ("mamba2 dtype=bfloat16", 3),  # as published; FlashAttention on a GPU takes no float32
        ("mamba2023_scan dtype=bfloat16", 3),
        ("xlstm2025_tfla dtype=bfloat16 points=null", 4),
        ("mingru2024 impl=rnn.mingru.parallel,rnn.gru.torch", 2),
    ],
)
def test_every_layer_of_a_published_setting_has_its_true_time_to_within_a_thousandth(
    tmp_path: Path, paper: str, cases: int
) -> None:
    summary = summary_with_errors(tmp_path, *f"paper={paper}".split())
    assert list(summary.status) == ["ok"] * cases
    assert summary.error.abs().max() < 0.001
