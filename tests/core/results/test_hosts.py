"""The remark on a run that several hosts measured."""

from typing import Any

from rows import PRECISION, measured

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.stored_run import host_notices, machine_of_hosts
from harness.core.results.summarise import summarise


def lines(*parts: tuple[str, str]) -> list[CaseResult]:
    """One case a host and mode, of its own size."""
    rows = []
    for number, (host, mode) in enumerate(parts):
        case = Case("rnn.elman", 8 * (number + 1), 8, 1, mode=mode)
        rows += [{**row, "host": host} for row in measured(case, 1.0, 8)]
    return summarise(rows, PRECISION)


def host(name: str, model: str = "a CPU") -> dict[str, Any]:
    return {"host": name, "cpu": {"model": model, "usable": 2}, "torch": {"version": "2.13.0", "gpu": None}}


ALIKE = {"n1": host("n1"), "n2": host("n2")}
UNLIKE = {"n1": host("n1"), "n2": host("n2", "another")}


def test_of_one_host_nothing_need_be_said() -> None:
    assert host_notices(lines(("n1", "forward"), ("n1", "train")), ALIKE) == []


def test_of_several_who_measured_what() -> None:
    assert host_notices(lines(("n1", "forward"), ("n2", "train"), ("n2", "train")), UNLIKE) == [
        "measured by n1: 1 case (mode=forward); n2: 2 cases (mode=train)"
    ]


def test_unlike_machines_in_one_setting_are_a_warning() -> None:
    _, warning = host_notices(lines(("n1", "train"), ("n2", "train"), ("n1", "forward")), UNLIKE)
    assert warning == (
        "mode=train: n1 and n2 are unlike machines (processor a CPU and another): "
        "cost models, exponents and comparisons mix the times of both"
    )
    assert len(host_notices(lines(("n1", "train"), ("n2", "train")), ALIKE)) == 1


MIXED = "calibrated peaks, cost models, exponents and comparisons may mix unlike machines"


def test_a_host_that_no_file_describes_is_named() -> None:
    described = {"n1": host("n1")}
    _, warning = host_notices(lines(("n1", "train"), ("n2", "train"), ("n3,n1", "train")), described)
    assert warning == f"no file of the run describes n2, n3: {MIXED}"
    assert host_notices(lines(("n2", "train")), described) == [f"no file of the run describes n2: {MIXED}"]
    assert host_notices(lines(("n2", "train")), {}) == []


def test_different_gpu_settings_in_one_setting_are_a_warning() -> None:
    hosts = {
        name: {**host(name), "torch": {"version": "2.13.0", "gpu": "H100", "gpu_states": {name: {"ecc_mode": mode}}}}
        for name, mode in (("n1", 1), ("n2", 0))
    }
    _, warning = host_notices(lines(("n1", "train"), ("n2", "train")), hosts)
    said = "n1 and n2 have different GPU settings (GPU ECC mode of n2 1 and 0): compare their times with care"
    assert said in warning


def test_the_machine_goes_by_the_names_of_all() -> None:
    assert machine_of_hosts(ALIKE) == {**host("n1"), "host": "n1, n2"}
