"""One sweep of a good layer and many misbehaving ones: each has a row, and no process or file of them remains."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import psutil
from core.faults.driver import Driver, environment, nothing_remains
from core.faults.table import LAYERS

MOST_BYTES = 2**28
SETTINGS = [
    "--no-plots",
    "seq_len=8",
    "d_model=8",
    "threads=1",
    "precision.trial_s=0.01",
    "precision.timeout_s=8",
    "precision.min_rounds=1",
    "precision.max_rounds=1",
    "precision.patience_s=0",
    f"memory_limit={MOST_BYTES // 2**20}MiB",
    "out=run",
]


@contextmanager
def swept(where: Path) -> Iterator[tuple[Driver, int, list[Path]]]:
    """A finished sweep of all layers, the most bytes that a trial held beyond the fork server, and leftover files."""
    temporary = Path(tempfile.mkdtemp())  # a short path, because sockets are created in it
    env = {**environment(str(where)), "TMPDIR": str(temporary)}
    impls = ",".join(f"core.faults.layers:{name}" for name in LAYERS)
    most = 0
    with Driver(where, f"impl={impls}", *SETTINGS, mark=str(where), env=env) as driver:
        while driver.runs():
            most = max(most, _held(driver))
            time.sleep(0.05)
        yield driver, most, list(temporary.iterdir())
    shutil.rmtree(temporary)


def _held(driver: Driver) -> int:
    parent, trial = driver.target("parent"), driver.target("trial")
    try:
        return trial.memory_info().rss - parent.memory_info().rss if parent and trial else 0
    except psutil.NoSuchProcess:
        return 0


def test_each_ends_as_it_must_and_nothing_of_theirs_is_seen_or_remains(tmp_path: Path) -> None:
    """One test, because the sweep takes most of a minute, and each worker that runs a part would repeat it."""
    with swept(tmp_path) as (driver, most_bytes, left):
        assert (driver.ended(), driver.err) == (3, "")
        assert "xxxx" not in driver.out
        # A trial also loads libraries that the fork server has not loaded.
        assert most_bytes < 1.5 * MOST_BYTES
    summary = pd.read_csv(tmp_path / "run" / "summary.csv")
    summary = summary.set_index(summary.impl.str.removeprefix("core.faults.layers:"))
    assert dict(summary.status) == {name: status for name, (status, _) in LAYERS.items()}
    for name, (_, reason) in LAYERS.items():
        assert reason in summary.reason.fillna("")[name], name
    assert (summary.time_s.notna() == (summary.status == "ok")).all()
    assert nothing_remains(str(tmp_path))
    assert left == []
