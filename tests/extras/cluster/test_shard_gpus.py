"""Which GPU a shard on this machine gets."""

import os
from types import SimpleNamespace

import pytest
from core.model.test_gpus import own_locks  # noqa: F401  # a fixture of every test

from harness.core.config.compose import compose
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome
from harness.core.run.session import Session
from harness.extras.cluster.shards import _choose_gpu


def test_a_shard_sees_its_gpu_by_uuid_so_that_no_order_makes_it_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"cuda": {"count": 2, "names": ["A", "A"], "uuids": ["GPU-2", "GPU-1"], "lacking": None}}
    executor = Executor(seed=0, trial_s=0.01, timeout_s=1)
    answer = SimpleNamespace(run=lambda *_: TrialOutcome("ok", None, {"devices": seen}))
    monkeypatch.setattr(Executor, "_warm_server", lambda self, which: answer)
    known = Session(executor, compose([]).precision, 0).visible_gpus(compose(["device=cuda"]))
    assert known == ["GPU-2", "GPU-1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _choose_gpu(compose(["device=cuda"]), known) == 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-2"


def test_a_shard_whose_cases_name_a_gpu_sees_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _choose_gpu(compose(["device=cuda:1"]), ["4", "7"]) == 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,7"
    assert _choose_gpu(compose(["device=cuda"]), ["4", "7"]) == 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4"
    assert _choose_gpu(compose(["device=cuda"]), ["4", "7"]) == 1  # this process has the other one
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"
    assert _choose_gpu(compose([]), None) == 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
