"""What the machine did meanwhile."""

import mmap
import sys
from pathlib import Path

import pytest

from harness.core.trial.environment import cpu_mhz, cpu_ticks, usage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_stolen_ticks_and_all_ticks_are_read_from_proc_stat() -> None:
    stat = "cpu  100 5 20 300 7 1 2 40 90 3\ncpu0 50 2 10 150 3 0 1 20 45 1\nintr 1\n"
    assert cpu_ticks(stat) == (40, 475)


def test_a_kernel_that_tells_of_no_steal_has_none() -> None:
    assert cpu_ticks("cpu  100 5 20 300\n") == (0, 425)


def test_touching_fresh_pages_is_counted_page_by_page() -> None:
    before = usage()
    with mmap.mmap(-1, 512 * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(512):
            memory[page * mmap.PAGESIZE] = 1
    assert 512 <= usage().since(before)["minor_faults"] <= 560


def test_time_on_the_cpu_is_counted_and_the_machines_ticks_go_on() -> None:
    before = usage()
    while usage().cpu_s - before.cpu_s < 0.05:
        pass
    during = usage().since(before)
    assert 0.05 <= during["cpu_s"] < 1.0
    assert during["machine_ticks"] > 0


def test_the_clock_is_that_of_the_cpu_that_runs_this_in_megahertz(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    fields = ["S", *["0"] * 35, "3", "0"]
    (tmp_path / "proc/self/stat").write_text(f"17 (a (strange) name) {' '.join(fields)}")
    folder = tmp_path / "sys/devices/system/cpu/cpu3/cpufreq"
    folder.mkdir(parents=True)
    (folder / "scaling_cur_freq").write_text("2450000\n")
    assert cpu_mhz(tmp_path) == 2450.0


def test_a_clock_that_is_hidden_is_not_known(tmp_path: Path) -> None:
    assert cpu_mhz(tmp_path) is None
