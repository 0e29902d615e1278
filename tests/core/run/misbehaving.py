"""Layers that misbehave once the file named by HARNESS_TEST_FLAG exists. As `impl=core.run.misbehaving:Name`."""

import os
import signal
import time
from pathlib import Path

from torch import Tensor, nn

FLAG = "HARNESS_TEST_FLAG"


class Good(nn.Module):
    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        if Path(os.environ[FLAG]).exists():
            self.misbehave()
        return x * 1.0

    def misbehave(self) -> None:
        pass


class Raises(Good):
    def misbehave(self) -> None:
        raise RuntimeError("no such luck")


class KillsItself(Good):
    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class KillsItsParentToo(Good):
    def misbehave(self) -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class Sleeps(Good):
    def misbehave(self) -> None:
        time.sleep(60)
