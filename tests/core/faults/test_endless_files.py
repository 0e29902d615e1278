"""Files that never end, block their reader or are far too large give one line on stderr, without a hang."""

import json
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rows import measured

from harness.cli.commands import main
from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_bytes
from harness.core.model.sweep_axes import Case
from harness.core.results.columns import table
from harness.core.results.row_files import SCHEMA
from harness.core.results.stored_run import read_run_directory

SECONDS, MORE_BYTES = 20, 2**30
IRREGULAR = "not a regular file"
TOO_LARGE = "the file is larger than 64 MiB"


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)  # a sparse file: it uses no space on the disk


FAULTS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "huge": huge,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with its tables."""
    run = tmp_path_factory.mktemp("whole") / "run"
    (run / "rows").mkdir(parents=True)
    rows = [json.dumps({"schema": SCHEMA, **row}) for row in measured(Case("rnn.torch", 64, 32, 1), 1e-3, 4096)]
    (run / "rows" / "0001-host-1.jsonl").write_text("\n".join(rows) + "\n")
    (run / "config.yaml").write_text(compose([]).record)
    (run / "machine.json").write_text('{"host": "vm"}')
    (run / "summary.csv").write_text(table(read_run_directory(run).lines).to_csv(index=False))
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    """Stop a reader that waits or reads endlessly, by limits on time and memory."""

    def stop(*_: object) -> None:
        pytest.fail(f"still reading after {SECONDS} s")  # not an exception that a reader handles

    previous = signal.signal(signal.SIGALRM, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_BYTES, hard))
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_baseline_is_refused_in_one_line(fault: str, run: Path, capsys: pytest.CaptureFixture) -> None:
    FAULTS[fault](Path("baseline.json"))
    assert main(["check", "baseline.json"]) == 2
    assert capsys.readouterr().err == f"harness: baseline.json: {TOO_LARGE if fault == 'huge' else IRREGULAR}\n"


def test_a_huge_pytest_benchmark_file_is_refused_in_one_line(run: Path, capsys: pytest.CaptureFixture) -> None:
    huge(Path("benchmarks.json"))
    assert main(["report", "benchmarks.json", "-o", "out"]) == 2
    assert capsys.readouterr().err == f"harness: benchmarks.json: {TOO_LARGE}\n"
    with pytest.raises(UsageError, match=TOO_LARGE):
        read_run_directory(Path("benchmarks.json"))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["config.yaml", "summary.csv"])
def test_a_run_without_its_configuration_or_table_is_none(
    name: str, fault: str, run: Path, capsys: pytest.CaptureFixture
) -> None:
    (run / name).unlink()
    FAULTS[fault](run / name)
    if name == "summary.csv":
        shutil.rmtree(run / "rows")
    assert main(["report", "run", "--no-plots"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ("is larger than" in line) if fault == "huge" else ("run is not a run" in line)


def put_into(run: Path, fault: str) -> None:
    """Put the fault into all files that a run can do without."""
    (run / "machine.json").unlink()
    (run / "machines").mkdir()
    (run / "shards").mkdir()
    (run / "shards" / "plan.json").write_text(json.dumps([[Case("rnn.torch", 64, 32, 1).as_dict()]]))
    for name in ("machine.json", "machines/vm.json", "lock.json", "shards/0000.json", "rows/0002-vm-1.jsonl"):
        FAULTS[fault](run / name)
    if fault == "huge":
        (run / "rows" / "0002-vm-1.jsonl").unlink()  # skipped line by line: see tests/core/results/test_reader.py


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_run_can_do_without_is_left_out(fault: str, run: Path, capsys: pytest.CaptureFixture) -> None:
    put_into(run, fault)
    assert main(["status", "run"]) == 0
    assert "1 case with rows" in capsys.readouterr().out
    assert len(read_run_directory(Path("run")).lines) == 1


def test_a_huge_file_of_settings_is_refused_in_one_line(run: Path, capsys: pytest.CaptureFixture) -> None:
    Path("mine/preset").mkdir(parents=True)
    huge(Path("mine/preset/large.yaml"))
    assert main(["sweep", "--config-dir", "mine", "preset=large", "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "mine/preset/large.yaml" in line
    assert "larger than 8 MiB" in line


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="there is no /proc/kmsg here")
def test_a_stream_that_the_kernel_presents_as_a_file_is_refused() -> None:
    with pytest.raises(OSError, match="not a regular file"):
        drain(Path("/proc/kmsg"))


def drain(path: Path) -> None:
    while read_bytes(path):
        pass
