"""Layers that misbehave towards the process they are measured in. Measured as `impl=faults.layers:Name`."""

import builtins
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time

import torch
from torch import Tensor, nn


class Good(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.misbehave()

    def misbehave(self) -> None:
        """In the constructor: once a trial, and no call is slower for it."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 1.0


def write_everywhere(part: bytes) -> None:
    """To whatever is open beside the standard streams."""
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):
            os.write(descriptor, part)


class ForksChildren(Good):
    """Three that would live for a minute, one of them in a session of its own; they hold the trial's pipe open."""

    def misbehave(self) -> None:
        for number in range(3):
            if os.fork() == 0:
                if number == 2:
                    os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(60)
                os._exit(0)


class ForksAndReturnsInTheChild(Good):
    """The child goes on as if it were the trial, and answers as well."""

    def misbehave(self) -> None:
        os.fork()


class IgnoresSigterm(Good):
    """And every other signal that can be ignored; it never ends by itself, and writes to what is open meanwhile."""

    def misbehave(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            write_everywhere(b"x" * 2**12)


class ClosesItsPipe(Good):
    def misbehave(self) -> None:
        os.closerange(3, 256)
        time.sleep(600)


class ClosesItsPipeAndGoesOn(Good):
    """Nobody hears what it measures."""

    def misbehave(self) -> None:
        os.closerange(3, 256)


class AnswersForItself(Good):
    """It writes a line to whatever is open."""

    def misbehave(self) -> None:
        write_everywhere(b"{}\n")


class WritesAGigabyte(Good):
    """Through Python, and to the descriptors themselves."""

    def misbehave(self) -> None:
        part = "x" * 2**20
        for _ in range(512):
            print(part)
        for descriptor in (1, 2):
            for _ in range(256):
                os.write(descriptor, part.encode())


class ReadsItsInput(Good):
    def misbehave(self) -> None:
        input()


class ChangesDirectory(Good):
    """To one that is gone."""

    def misbehave(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)


class ExitsAtOnce(Good):
    def misbehave(self) -> None:
        os._exit(0)


class CallsSysExit(Good):
    def misbehave(self) -> None:
        sys.exit("enough")


class Raises(Good):
    def misbehave(self) -> None:
        raise RuntimeError("no such luck")


class Unprintable(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("no text")


class PrintsANumber(RuntimeError):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


class Disguised(RuntimeError):
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise ValueError("no class")


class RaisesUnprintable(Good):
    def misbehave(self) -> None:
        raise Unprintable


class RaisesANumber(Good):
    def misbehave(self) -> None:
        raise PrintsANumber


class RaisesDisguised(Good):
    def misbehave(self) -> None:
        raise Disguised("who am I")


class SpoilsBuiltinsAndRaises(Good):
    """Whatever describes the exception needs them."""

    def misbehave(self) -> None:
        for name in ("str", "len", "isinstance", "repr", "sorted", "print", "open", "type", "next", "BaseException"):
            setattr(builtins, name, None)
        del builtins.reversed
        raise RuntimeError("spoiled")


class SpoilsBuiltins(Good):
    """The harness itself fails afterwards."""

    def misbehave(self) -> None:
        builtins.isinstance = builtins.len = builtins.str = spoiled


def spoiled(*_: object) -> None:
    raise LookupError("spoiled")


class ReturnsNaN(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x * float("nan")


class ReturnsTheWrongShape(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :-1]


class LeaksThreads(Good):
    """That no interpreter would end before."""

    def misbehave(self) -> None:
        for _ in range(4):
            threading.Thread(target=time.sleep, args=(600,), daemon=False).start()


class Greedy(Good):
    def misbehave(self) -> None:
        self.hoard = []
        while True:
            self.hoard.append(torch.ones(2**22))


class GreedyInPython(Good):
    """Not by torch's allocator."""

    def misbehave(self) -> None:
        self.hoard = []
        while True:
            self.hoard.append(bytearray(2**24))


class GreedyInPieces(Good):
    """Of a size that comes out of the heap, piece by piece."""

    def misbehave(self) -> None:
        self.hoard = []
        while True:
            self.hoard.append(bytearray(2**12))


class SignalsItsParent(Good):
    """It ends the process that trials are forked from, and itself with it."""

    def misbehave(self) -> None:
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(600)


class KillsItsParent(Good):
    """It and a child of its own go on."""

    def misbehave(self) -> None:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
