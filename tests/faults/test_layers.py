"""One sweep of a good layer and many misbehaving ones: each has a row, and no process or file of them remains."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import psutil
import pytest
from faults.driver import Driver, environment, nothing_remains
from faults.layers import SHARED
from faults.table import LAYERS

MOST_BYTES = 2**28
SETTINGS = [
    "--no-plots",
    "seq_len=8",
    "d_model=8",
    "threads=1",
    "precision.trial_s=0.01",
    "precision.timeout_s=3",
    "precision.min_rounds=1",
    "precision.max_rounds=1",
    "precision.patience_s=0",
    f"memory_limit={MOST_BYTES // 2**20}MiB",
    "out=run",
]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Driver, int, list[Path]]]:
    """A finished sweep of all layers, the most bytes that a trial held beyond the fork server, and leftover files."""
    where = tmp_path_factory.mktemp("swept")
    temporary = Path(tempfile.mkdtemp())  # a short path, because sockets are created in it
    env = {**environment(str(where)), "TMPDIR": str(temporary)}
    impls = ",".join(f"faults.layers:{name}" for name in LAYERS)
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


def summary_of(driver: Driver) -> pd.DataFrame:
    summary = pd.read_csv(driver.cwd / "run" / "summary.csv")
    return summary.set_index(summary.impl.str.removeprefix("faults.layers:"))


def test_each_ends_as_it_must(swept) -> None:
    driver = swept[0]
    assert (driver.ended(), driver.err) == (3, "")
    summary = summary_of(driver)
    assert dict(summary.status) == {name: status for name, (status, _) in LAYERS.items()}
    for name, (_, reason) in LAYERS.items():
        assert reason in summary.reason.fillna("")[name], name


def test_those_that_harm_only_themselves_are_measured(swept) -> None:
    summary = summary_of(swept[0])
    assert (summary.time_s.notna() == (summary.status == "ok")).all()


def test_nothing_that_they_print_is_seen(swept) -> None:
    assert "xxxx" not in swept[0].out


def test_none_gets_more_memory_than_the_limit(swept) -> None:
    # A trial also loads libraries that the fork server has not loaded.
    assert swept[1] < 1.5 * MOST_BYTES


def test_no_process_of_theirs_remains(swept) -> None:
    assert nothing_remains(swept[0].mark)


def test_no_temporary_file_of_theirs_remains(swept) -> None:
    assert swept[2] == []


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory is no file here")
def test_no_shared_memory_of_theirs_remains(swept) -> None:
    names = (swept[0].cwd / SHARED).read_text().split()
    assert {name.partition("_")[0] for name in names} >= {"psm", "torch", "c"}
    assert [name for name in names if Path("/dev/shm", name).exists()] == []
