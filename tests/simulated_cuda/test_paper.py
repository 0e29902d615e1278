"""Published settings with device=cuda, on a simulated GPU of which the true costs are known."""

from pathlib import Path

import pandas as pd
import pytest
from simulated_cuda.commands import NO_PLOTS, ONE_THREAD, TWO_ROUNDS, harness, true_costs
from simulated_cuda.test_compare import GPU

from harness.sweep_axes import AXES, Case

pytestmark = pytest.mark.slow
SMALL = ("scale=cpu", "seq_len=16", "d_model=16", "num_heads=2", "batch_size=1", "device=cuda", ONE_THREAD, NO_PLOTS)


@pytest.mark.parametrize(
    ("paper", "cases"),
    [("vaswani2017_table1", 6), ("mamba2", 3), ("mingru2024 impl=rnn.mingru.parallel,rnn.gru.torch", 2)],
)
def test_every_layer_of_a_published_setting_has_its_true_time_to_within_a_thousandth(
    tmp_path: Path, paper: str, cases: int
) -> None:
    ended = harness("sweep", *f"paper={paper}".split(), *SMALL, *TWO_ROUNDS, "out=run", cwd=tmp_path, settings=GPU)
    assert (ended.status, ended.err) == (0, ""), ended.out
    summary = pd.read_csv(tmp_path / "run" / "summary.csv")
    assert len(summary) == cases
    assert set(summary.status) == {"ok"}
    lines = [{name: line[name] for name in AXES if pd.notna(line.get(name))} for line in summary.to_dict("records")]
    true = pd.DataFrame(true_costs(map(Case.from_dict, lines), tmp_path, GPU))
    of_this = true.graph_s.where(
        summary.gpu_time_by == "graph", true.cold_s
    )  # a loop of many launches is timed as a graph
    assert summary.time_s.to_numpy() == pytest.approx(of_this.to_numpy(), rel=0.001)
