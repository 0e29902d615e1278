"""`doctor`: plain text with the facts of this machine, whatever is wrong with it."""

import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import harness
from harness.cli.commands import main
from harness.core.config.machine import cpu_model
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome

pytestmark = pytest.mark.usefixtures("forked_servers")
Report = Callable[[], dict[str, str]]


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """The lines that `doctor` prints in an empty directory, by their first word."""
    monkeypatch.chdir(tmp_path)

    def printed() -> dict[str, str]:
        assert main(["doctor"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert out.replace("\n", "").isprintable()
        return dict(line.split(maxsplit=1) for line in out.splitlines())

    return printed


def test_it_has_versions_machine_packages_and_directory(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    found = report()
    assert found["attn-harness"].startswith(harness.__version__)
    assert found["python"].startswith(platform.python_version())
    assert found["torch"].startswith(version("torch"))
    assert cpu_model() in found["processor"]
    assert "in torch" in found["threads"]
    assert "available" in found["memory"]
    assert f"numpy {version('numpy')}" in found["packages"]
    assert "flash_attn " in found["optional"]
    assert "OMP_WAIT_POLICY=passive" in found["environment"]
    assert f"results/ in {Path.cwd()}: writable" in found["results"]
    assert found.keys() & {"gpu", "problem"} == {"gpu"}
    assert list(Path.cwd().iterdir()) == []


def test_a_quota_and_an_unknown_c_library_are_told(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.core.config.key_value_options.cpu_quota", lambda: (1.5, True))
    monkeypatch.setattr("harness.cli.machine.cpu_quota", lambda: (1.5, True))
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    found = report()
    assert found["cpus"].startswith("1 usable of ")
    assert found["quota"] == "1.5 CPUs' time"
    assert found["python"].endswith(", unknown libc")


def test_what_does_not_work_is_a_line_of_the_report(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executor, "ask", lambda *_: TrialOutcome("error", "ImportError: libtorch.so"))
    Path("results").write_text("a file")
    found = report()
    assert found["torch"] == "not usable"
    assert found["problem"] == "torch cannot be used (error): ImportError: libtorch.so"
    assert "is a file" in found["results"]


def test_another_harness_in_the_trials_is_a_problem(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"harness": "/elsewhere", "version": "2.9", "cuda": None, "default_threads": 2, "interop_threads": 2}
    monkeypatch.setattr(Executor, "ask", lambda *_: TrialOutcome("ok", None, facts))
    assert report()["problem"].startswith("trials use the harness in /elsewhere")
