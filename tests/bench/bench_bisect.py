"""How often `bisect` finds a planted step of the time among 64 commits, and how long that takes.

`HARNESS_BENCH_RUNS` is the number of repositories for each step, 2 by default. FLOPs and memory are the same at all
commits, so only the time can tell them apart.
"""

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.cli.commands import main

COMMITS = 64
# A loop of Python takes nearly all of the time.
LAYER = """\
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range({steps}):
            pass
        return self.mix(x)
"""


def git(*arguments: str) -> None:
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *name, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("percent", [10, 5])
def test_a_planted_step_is_found(
    percent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    counts = {"right": 0, "undecided": 0, "wrong": 0}
    seconds = []
    for run in range(int(os.environ.get("HARNESS_BENCH_RUNS", "2"))):
        here = tmp_path / str(run)
        here.mkdir()
        monkeypatch.chdir(here)
        monkeypatch.setattr(sys, "path", list(sys.path))
        planted = random.Random(f"{percent} {run}").randrange(1, COMMITS)
        git("init", "-b", "main")
        for number in range(COMMITS):
            steps = 20_000 if number < planted else 200 * (100 + percent)
            Path("planted_layer.py").write_text(LAYER.format(steps=steps))
            git("add", "planted_layer.py")
            git("commit", "--allow-empty", "-m", f"commit {number}")
        case = ["impl=planted_layer:Layer", "seq_len=16", "d_model=16", "num_heads=2", "threads=1"]
        began = time.monotonic()
        status = main(["bisect", f"HEAD~{COMMITS - 1}..HEAD", *case, "out=found"])
        seconds.append(time.monotonic() - began)
        found = re.search(r"The time changes by .* at \w+ \(commit (\d+)\)", " ".join(capsys.readouterr().out.split()))
        right = found is not None and int(found[1]) == planted
        counts["undecided" if status == 3 else "right" if right else "wrong"] += 1
    with capsys.disabled():
        told = ", ".join(f"{number} {name}" for name, number in counts.items())
        print(f"\n+{percent} %: {told}; {min(seconds):.0f} – {max(seconds):.0f} s")
