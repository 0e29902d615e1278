"""Layers with a planted fault or habit, named after it. Measured as `impl=planted:Name`."""

import os
import signal
import subprocess
import time
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from impls.attention.plain import NaiveAttention


class Identity(nn.Module):
    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x * 1.0


class Cancels(nn.Module):
    """Loses four digits to a large number, in float32."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return ((x.float() + 1e4) - 1e4).to(x.dtype)


class CancelsAsItsReferenceDoes(Cancels):
    reference = Cancels


class NoHeads(nn.Module):
    family = "mixers"

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class ClaimsTooLittle(NoHeads):
    """Claims nd² FLOPs for n·d² multiply-adds, each of which counts 2."""

    claims: ClassVar[dict] = {"work": "nd²"}


class RefusesShort(Identity):
    @staticmethod
    def supports(case) -> str | None:
        return "needs 64 tokens or more" if case.seq_len < 64 else None


class ForgetsTheScale(NaiveAttention):
    reference = "attention.naive"

    def head(self, *of_it: Any) -> Tensor:
        return super().head(*of_it) * self.head_dim**0.5


class ForgetsTheKeys(NaiveAttention):
    """Right outputs, but gradients of half the right size."""

    reference = "attention.naive"

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + (y.detach() - y) * 0.5


class _StopsAtItsInput(NaiveAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach())


class PassesAGradient(NaiveAttention):
    """Right outputs, but a gradient of the input, which its reference lacks."""

    reference = _StopsAtItsInput


class Autocast(NoHeads):
    """Right in bfloat16, and it declares no error."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.mix(x).to(x.dtype)


class Sleeps(Identity):
    def forward(self, x: Tensor) -> Tensor:
        time.sleep(60)
        return x


class SleepsWhenLong(Identity):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 64:
            time.sleep(60)
        return x * 1.0


class Greedy(Identity):
    def forward(self, x: Tensor) -> Tensor:
        hoard = []
        while True:
            hoard.append(torch.ones(2**24))


class Crashes(Identity):
    def forward(self, x: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.SIGSEGV)
        return x


class KillsItself(Identity):
    def forward(self, x: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.SIGKILL)
        return x


class ExitsQuietly(Identity):
    def forward(self, x: Tensor) -> Tensor:
        os._exit(0)


class ClosesEveryFile(Identity):
    def forward(self, x: Tensor) -> Tensor:
        os.closerange(0, 256)
        time.sleep(60)
        return x


class LeavesAChild(Identity):
    """Leaves a child that holds the trial's pipe open, ignores SIGTERM and lives for a minute."""

    def forward(self, x: Tensor) -> Tensor:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
        return x


class StartsADaemon(Identity):
    """Starts a process in its own session, which no signal to the trial's process group reaches."""

    def forward(self, x: Tensor) -> Tensor:
        subprocess.Popen(["sleep", "4713"], start_new_session=True)
        return x * 1.0


class StartsADaemonAndSleeps(StartsADaemon):
    def forward(self, x: Tensor) -> Tensor:
        super().forward(x)
        time.sleep(60)
        return x


class Drops(Identity):
    """Applies dropout, which draws new random numbers at each call."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, self.training)


class HasAFloat32Constant(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.eye(x.shape[-1])


class TakesFloat32(Identity):
    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == torch.float32
        return 2 * x


class RaisesInColour(Identity):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("\x1b[31mno such\x07 luck\x1b[0m")


class RaisesInConstructor(Identity):
    def __init__(self, d_model: int, num_heads: int) -> None:
        raise RuntimeError("no such luck")


class LacksAnAttribute(Identity):
    """Fails with an AttributeError that torch's own code raises."""

    def forward(self, x: Tensor) -> Tensor:
        return self.zork(x)


class KeepsItsResult(NoHeads):
    """Caches its first result and never recomputes it."""

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = super().forward(x)
        return self.kept


class ReturnsATuple(Identity):
    def forward(self, x: Tensor) -> tuple:
        return x, None


class ReturnsTheWrongShape(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :-1]


class ReturnsNaN(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return x * float("nan")


class ReturnsGarbage(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return torch.randn_like(x) if torch.initial_seed() else torch.empty_like(x).uniform_(-1, 1) * x.dtype.itemsize


class Chatters(Identity):
    def forward(self, x: Tensor) -> Tensor:
        print("chatter" * 1000)
        return x * 1.0


NotALayer = 3


class BiasedKeys(nn.Module):
    """Attention whose keys have a bias. Its gradient is zero: softmax does not see what is added to all scores."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return (self.q(x) @ self.k(x).transpose(1, 2)).softmax(-1) @ self.v(x)
