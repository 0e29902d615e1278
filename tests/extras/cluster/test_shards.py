"""Cases that are compared with each other belong to the same shard."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_gpu_states import machine

from harness.core.model.background_process import PLACE
from harness.core.model.sweep_axes import SETTINGS, Case
from harness.core.results import run_directory
from harness.core.results.stored_run import gpu_notices
from harness.extras.cluster import launch
from harness.extras.cluster.shards import add_machine, shards_of

CASES = [
    Case(impl, n, 16, 2, mode=mode) for mode in ("train", "forward") for impl in ("rnn.elman", "a:B") for n in (8, 16)
]


def test_sizes_and_layers_stay_together_and_settings_are_apart() -> None:
    shards = shards_of(CASES, SETTINGS)
    assert [{case.mode for case in shard} for shard in shards] == [{"forward"}, {"train"}]
    assert sorted(case for shard in shards for case in shard) == sorted(CASES)


def test_the_same_cases_make_the_same_shards() -> None:
    assert shards_of(CASES, SETTINGS) == shards_of(CASES[::-1], SETTINGS)


def test_whoever_wants_more_shards_says_what_need_not_be_compared() -> None:
    assert len(shards_of(CASES, ["mode", "impl"])) == 4
    assert len(shards_of(CASES, [])) == 1


def test_jobs_use_this_harness_where_another_checkout_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    [path] = launch._map(SimpleNamespace(map_array=lambda _, paths, __: paths), print, [None])
    assert path.index(str(PLACE)) < path.index(str(tmp_path))


def test_jobs_on_the_gpus_of_one_host_all_leave_their_state(tmp_path: Path) -> None:
    add_machine(tmp_path, machine(a={}))
    add_machine(tmp_path, machine(b={"power_limit_w": 500.0}))
    add_machine(tmp_path, machine("n2", c={}, d={"index": 1}))
    found, _ = run_directory.machines(tmp_path)
    assert [list(one["torch"]["gpu_states"]) for one in found.values()] == [["a", "b"], ["c", "d"]]
    assert gpu_notices(found) == [
        "n1: its GPUs differ (GPU power limit of b 700 W and 500 W): cost models and comparisons mix their times"
    ]
    add_machine(tmp_path, machine(b={}))
    assert gpu_notices(run_directory.machines(tmp_path)[0]) == []
