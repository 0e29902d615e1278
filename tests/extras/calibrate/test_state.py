"""The machine's settings, read from a made-up /sys and /proc."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.core.config.key_value_options import usable_cpus
from harness.core.model.file_io import cpu_quota, memory_left
from harness.core.run.executor import Executor
from harness.extras.calibrate.machine_state import on_battery, read_machine_state, turbo, usable_cores, virtual

CPU = "sys/devices/system/cpu"
PLUGGED, ON_BATTERY = (SimpleNamespace(percent=50, power_plugged=plugged) for plugged in (True, False))


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def test_a_whole_machine_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: PLUGGED)
    write(
        tmp_path,
        **{
            f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
            f"{CPU}/cpu1/cpufreq/scaling_governor": "performance",
            f"{CPU}/cpu10/cpufreq/scaling_governor": "powersave",
            f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate",
            f"{CPU}/intel_pstate/no_turbo": "0",
            f"{CPU}/smt/active": "1",
            "proc/cpuinfo": "processor : 0\nflags : fpu sse avx",
            "proc/self/cgroup": "0::/job",
            "sys/fs/cgroup/job/cpu.max": "max 100000",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
            "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
        },
    )
    state = read_machine_state(tmp_path)
    assert state.governors == ("performance", "powersave")
    assert (state.scaling_driver, state.turbo, state.smt, state.virtual) == ("intel_pstate", True, True, False)
    assert (state.clocksource, state.huge_pages, state.cpu_quota, state.on_battery) == ("tsc", "always", None, False)
    assert state.unreadable == ("usable_cores",)


def test_what_cannot_be_read_is_none_and_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden() -> None:
        raise FileNotFoundError("/sys/class/power_supply")

    monkeypatch.setattr(psutil, "sensors_battery", hidden)
    state = read_machine_state(tmp_path)
    assert set(state.unreadable) == {
        *("usable_cores", "governors", "scaling_driver", "turbo", "smt", "virtual", "clocksource"),
        *("huge_pages", "cpu_quota", "on_battery"),
    }
    assert all(getattr(state, name) is None for name in state.unreadable)


@pytest.mark.parametrize(
    ("file", "text", "on"),
    [
        ("intel_pstate/no_turbo", "0", True),
        ("intel_pstate/no_turbo", "1", False),
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
    ],
)
def test_turbo_is_told_by_the_driver_that_is_there(tmp_path: Path, file: str, text: str, on: bool) -> None:
    write(tmp_path, **{f"{CPU}/{file}": text})
    assert turbo(tmp_path) is on


def test_hyper_threads_of_one_core_are_one_core(tmp_path: Path) -> None:
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        write(tmp_path, **{f"{CPU}/cpu{cpu}/topology/thread_siblings_list": siblings})
    assert usable_cores(tmp_path, [0, 1, 2, 3]) == 2
    assert usable_cores(tmp_path, [0, 2]) == 1
    assert usable_cores(tmp_path, [0, 4]) is None


def test_a_hypervisor_shows_among_the_processors_flags(tmp_path: Path) -> None:
    write(tmp_path, **{"proc/cpuinfo": "flags\t\t: fpu hypervisor sse"})
    assert virtual(tmp_path) is True


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "150000 100000"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000",
                "sys/fs/cgroup/a/cpu.max": "200000 100000",
            },
            2.0,
        ),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"}, 0.5),
        (
            {
                "proc/self/cgroup": "0::/a",
                "sys/fs/cgroup/a/cpu.max": "300000 100000",
                "sys/fs/cgroup/cpu.max": "150000 100000",
            },
            1.5,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n0::/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
    ],
)
def test_the_quota_is_the_least_of_the_group_and_those_above(tmp_path: Path, files: dict[str, str], quota) -> None:
    write(tmp_path, **files)
    assert cpu_quota(tmp_path) == (quota, True)


def test_a_sweep_takes_no_more_threads_than_the_quota_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    for quota, most in ((None, 8), (0.5, 1), (2.9, 2), (64.0, 8)):
        monkeypatch.setattr("harness.core.config.key_value_options.cpu_quota", lambda quota=quota: (quota, True))
        assert usable_cpus() == most


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "max", "sys/fs/cgroup/memory.current": "7"}, 2**63),
        ({}, 2**63),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/memory.max": "5000",
                "sys/fs/cgroup/a/b/memory.current": "1000",
                "sys/fs/cgroup/a/memory.max": "4000",
                "sys/fs/cgroup/a/memory.current": "3000",
                "sys/fs/cgroup/a/memory.stat": "anon 2000\ninactive_file 500\nactive_file 300",
            },
            1500,
        ),
        (
            {
                "proc/self/cgroup": "9:memory:/docker/1\n4:cpu,cpuacct:/docker/1",
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "9000",
                "sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes": "9100",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "9100",
            },
            0,
        ),
    ],
)
def test_the_memory_left_is_the_least_of_the_group_and_those_above(
    tmp_path: Path, files: dict[str, str], left: int
) -> None:
    write(tmp_path, **files)
    assert memory_left(tmp_path) == left


def test_a_trial_gets_a_share_of_what_its_control_group_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.core.run.executor.memory_left", lambda: 2**30)
    with Executor(seed=0, trial_s=0.01, timeout_s=1) as executor:
        assert executor.memory_limit == int(0.9 * 2**30)


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cgroup.controllers": "cpu memory"},
        {
            "proc/self/cgroup": "3:cpuset:/\n1:cpu:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
    ],
)
def test_no_quota_is_not_the_same_as_not_readable(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, **files)
    assert cpu_quota(tmp_path) == (None, True)
    assert cpu_quota(tmp_path / "elsewhere") == (None, False)


@pytest.mark.parametrize(("battery", "drained"), [(ON_BATTERY, True), (PLUGGED, False), (None, False)])
def test_a_battery_counts_while_it_is_drained(battery: object, drained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery)
    assert on_battery() is drained


def test_this_machine_can_be_read_whatever_it_shows() -> None:
    assert read_machine_state().usable_cpus >= 1
