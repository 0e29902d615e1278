"""How often `bisect` finds a planted step of the time, how sure it says it is, and how long that takes.

`HARNESS_BENCH_RUNS` is the number of repositories for each step, 20 by default, and `HARNESS_BENCH_COMMITS` that of the
commits in each, 64 by default. FLOPs and memory are the same at all commits, so only the time can tell them apart.
"""

import os
import random
import re
import statistics
import sys
import time
from pathlib import Path

import pytest
from extras.compare.repositories import LAYER, git

from harness.cli.commands import main

RUNS, COMMITS = (int(os.environ.get(f"HARNESS_BENCH_{name}", usual)) for name, usual in (("RUNS", 20), ("COMMITS", 64)))


@pytest.mark.parametrize("percent", [10, 5])
def test_a_planted_step_is_found(
    percent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    counts = {"right": 0, "undecided": 0, "wrong": 0}
    confidence = {name: list[float]() for name in counts}
    seconds, path = [], list(sys.path)
    for run in range(RUNS):
        here = tmp_path / str(run)
        here.mkdir()
        monkeypatch.chdir(here)
        monkeypatch.setattr(sys, "path", list(path))
        planted = random.Random(f"{percent} {run}").randrange(1, COMMITS)
        git("init", "-b", "main")
        for number in range(COMMITS):
            steps = 20_000 if number < planted else 200 * (100 + percent)
            # A loop of Python takes nearly all of the time.
            loop = f"for _ in range({steps}):\n            pass\n        return"
            Path("planted_layer.py").write_text(LAYER.format(products=1).replace("return", loop))
            git("add", "planted_layer.py")
            git("commit", "--allow-empty", "-m", f"commit {number}")
        case = ["impl=planted_layer:Layer", "seq_len=16", "d_model=16", "num_heads=2", "threads=1"]
        began = time.monotonic()
        status = main(["bisect", f"HEAD~{COMMITS - 1}..HEAD", *case, "out=found"])
        seconds.append(time.monotonic() - began)
        assert status in (0, 3)
        out = " ".join(capsys.readouterr().out.split())
        found = re.search(r"The time changes by .* at \w+ \(commit (\d+)\)", out)
        stated = re.search(r"\bcommit \d+ (\d\.\d\d)\b", out)
        right = found is not None and int(found[1]) == planted
        verdict = "undecided" if status == 3 or "more than one commit" in out else "right" if right else "wrong"
        counts[verdict] += 1
        confidence[verdict] += [float(stated[1])] if stated else []
        with capsys.disabled():
            sure = stated[1] if stated else "none"
            told = "" if verdict == "right" else f": {out[-300:]}"
            print(f"\n+{percent} %, run {run}: {verdict}, confidence {sure}, {seconds[-1]:.0f} s{told}", end="")
    with capsys.disabled():
        told = ", ".join(f"{number} {name}" for name, number in counts.items())
        sure = "; ".join(f"{name} {statistics.median(some):.2f}" for name, some in confidence.items() if some)
        wall = f"{min(seconds):.0f} – {statistics.median(seconds):.0f} – {max(seconds):.0f}"
        print(f"\n+{percent} %, {COMMITS} commits, {RUNS} runs: {told}; confidence (median) {sure}; {wall} s a run")
