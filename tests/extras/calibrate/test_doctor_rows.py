"""What `doctor` says of calibrations and of a GPU's settings."""

import platform
from dataclasses import replace

import pytest
import torch
from cli.test_doctor import Report, report  # noqa: F401  # a fixture
from extras.calibrate.conftest import GOOD

from harness.core.config.machine import cpu_model
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome
from harness.extras.calibrate import record

pytestmark = pytest.mark.usefixtures("forked_servers")


def test_without_a_calibration_the_command_that_makes_one_is_told(report: Report) -> None:  # noqa: F811
    assert report()["calibration"] == "there is none: python -m harness calibrate makes one"


def test_a_calibration_of_this_machine_is_summed_up(report: Report) -> None:  # noqa: F811
    here = replace(GOOD, host=platform.node(), cpu_model=cpu_model(), torch_version=torch.__version__)
    record.save(here, record.PATH)
    assert report()["calibration"].startswith(
        "fit, noise floor 2.1 % at precision=quick with threads=2 on cpu, made 20"
    )
    record.save(replace(here, noise=None), record.PATH)
    command = "python -m harness calibrate device=cpu threads=2"
    assert report()["calibration"].startswith(
        f"usable with care, noise floor: not measured ('{command}' measures it), made 20"
    )
    record.save(replace(here, host="another"), record.PATH)
    assert "is of another host: another, here " in report()["calibration"]
    record.save(replace(here, torch_version="1.0"), record.PATH)
    assert "is of another torch: 1.0, here " in report()["calibration"]
    record.PATH.write_text("{")
    assert "not a calibration" in report()["calibration"]


@pytest.mark.parametrize("borrowed", [None, "a container"])
def test_a_gpus_state_is_told_with_the_command_that_locks_its_clock_on_a_machine_of_ones_own(
    report: Report,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    borrowed: str | None,
) -> None:
    ask = Executor.ask
    seen = {
        "gpu": "NVIDIA H200",
        "gpu_memory_bytes": 141 * 2**30,
        "gpus": ["NVIDIA H200", "NVIDIA H100"],
        "gpu_states": {
            uuid: {
                "driver": "570.86",
                "sm_clock_max_mhz": 1980,
                "application_sm_clock_mhz": 1500,
                "borrowed": borrowed,
                "mig_mode": None,
            }
            for uuid in ("GPU-a", "GPU-b")
        },
    }

    def answered(self: Executor, purpose: str) -> TrialOutcome:
        outcome = ask(self, purpose)
        return replace(outcome, values={**outcome.values, **seen})

    monkeypatch.setattr(Executor, "ask", answered)
    found = report()
    assert (found["gpu"], found["gpu-1"]) == ("NVIDIA H200, 141 GiB", "NVIDIA H100")
    assert found["gpu-state"].startswith("uuid GPU-b, driver 570.86, sm_clock_max_mhz 1980")
    assert found["gpu-state"].endswith("mig_mode unknown")
    assert ("sudo nvidia-smi -lgc 1500" in found["gpu-advice"]) == (borrowed is None)
    assert ("may not be yours (a container)" in found["gpu-advice"]) == (borrowed is not None)
