"""Git repositories of layers, for tests of commands that compare commits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# The number of products of n·d² multiply-adds.
LAYER = """\
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return sum(self.mix(x) for _ in range({products}))
"""


def enter(here: Path, monkeypatch: pytest.MonkeyPatch, columns: int = 200) -> None:
    """Change to a directory, before a terminal of so many columns. Git has no settings there."""
    monkeypatch.chdir(here)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setattr(sys, "path", list(sys.path))


def git(*arguments: str) -> str:
    """What git prints. Commits are by somebody."""
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def worktrees() -> int:
    return len(git("worktree", "list").splitlines())
