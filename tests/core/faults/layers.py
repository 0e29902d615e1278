"""Layers that misbehave towards the process that measures them. Measured as `impl=core.faults.layers:Name`."""

import builtins
import contextlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Hashable
from typing import Any

import psutil
import torch
from torch import Tensor, nn


class Good(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.misbehave()

    def misbehave(self) -> None:
        """Called by the constructor, so once per trial. It slows down no call."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 1.0


def write_everywhere(part: bytes) -> None:
    """Write to every open descriptor except the standard streams."""
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):
            os.write(descriptor, part)


def measured_by(module: str) -> bool:
    """Whether a function of the module is on the call stack."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals["__name__"] == module:
            return True
    return False


class ForksChildren(Good):
    """Forks three children that live for a minute and hold the trial's pipe open. One has its own session."""

    def misbehave(self) -> None:
        for number in range(3):
            if os.fork() == 0:
                if number == 2:
                    os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(60)
                os._exit(0)


class ForksAndReturnsInTheChild(Good):
    """The child continues as if it were the trial, and answers too."""

    def misbehave(self) -> None:
        os.fork()


class IgnoresSigterm(Good):
    """Ignores SIGTERM and five other signals. It never ends and keeps writing to all open descriptors."""

    def misbehave(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            write_everywhere(b"x" * 2**12)
            time.sleep(0.01)  # a faster machine would send an answer that is too long before the time is over


class ClosesItsPipe(Good):
    def misbehave(self) -> None:
        os.closerange(3, 256)
        time.sleep(600)


class ClosesItsPipeAndGoesOn(Good):
    """The driver cannot receive its result."""

    def misbehave(self) -> None:
        os.closerange(3, 256)


class AnswersForItself(Good):
    """Writes a line to every open descriptor."""

    def misbehave(self) -> None:
        write_everywhere(b"{}\n")


class AnswersWithTheStatusAlone(Good):
    def misbehave(self) -> None:
        write_everywhere(b'{"status":"ok"}\n')


class AnswersWithManyBrackets(Good):
    def misbehave(self) -> None:
        write_everywhere(b"[" * 60000 + b"\n")


class AnswersWithoutAnEnd(Good):
    """Writes 300 MiB without a line end."""

    def misbehave(self) -> None:
        for _ in range(300):
            write_everywhere(b"x" * 2**20)


class FailsForNoText(Good):
    def misbehave(self) -> None:
        write_everywhere(b'{"status":"error","reason":7}\n')


class ReplacesJsonDumps(Good):
    """Replaces `json.dumps` by a function that returns bytes, like those of faster libraries."""

    def misbehave(self) -> None:
        json.dumps = lambda *_, **__: b'{"status":"incorrect","reason":"none"}'


class ReplacesOpenAndPrint(Good):
    def misbehave(self) -> None:
        builtins.open = builtins.print = lambda *_, **__: None


class ReplacesTheClocks(Good):
    """Replaces the clocks by constants, like libraries that freeze time."""

    def misbehave(self) -> None:
        time.perf_counter = time.monotonic = time.process_time = time.time = lambda: 1.0


class MovesTheClock(Good):
    """Back and forth by a year, from call to call."""

    def forward(self, x: Tensor) -> Tensor:
        moved = time.time() + random.choice((-1, 1)) * 365 * 86400
        time.time = lambda: moved
        return super().forward(x)


class WritesAGigabyte(Good):
    """Writes both through `print` and directly to the descriptors."""

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
    """Changes to a directory that is then removed."""

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


class ReturnsNaN(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x * float("nan")


class ReturnsTheWrongShape(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :-1]


class ReturnsAnotherDtypeLater(Good):
    """From the eighth call on."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x) if self.calls < 8 else super().forward(x).double()


class ReturnsAnotherDtype(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x.double()


class ReturnsComplexNumbers(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x.to(torch.complex64)


class ReturnsItsInput(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x


class ReturnsAViewOfItsInput(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(x.shape)


class ExpandsItsInput(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x.expand(x.shape)


class ChangesItsInput(Good):
    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)


class _Kept(torch.autograd.Function):
    """x, computed by 400 products unless `results` has an output for the key."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, key: Hashable, results: dict[Hashable, Tensor]) -> Tensor:
        if key not in results:
            y = x
            for _ in range(400):
                y = y * -1.0
            results[key] = y
        return results[key].clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * 1.0, None, None


class KeepsByAddress(Good):
    """Returns its earlier output for the same key."""

    def misbehave(self) -> None:
        self.results: dict[Hashable, Tensor] = {}

    def key(self, x: Tensor) -> Hashable:
        return x.data_ptr(), x._version, x.shape

    def forward(self, x: Tensor) -> Tensor:
        return _Kept.apply(x, self.key(x.detach()), self.results)


class KeepsByIdentity(KeepsByAddress):
    def forward(self, x: Tensor) -> Tensor:
        return _Kept.apply(x, id(x), self.results)


class KeepsByFirstElement(KeepsByAddress):
    def key(self, x: Tensor) -> Hashable:
        return x[0, 0, 0].item()


class KeepsBySum(KeepsByAddress):
    def key(self, x: Tensor) -> Hashable:
        return x[0, :2, :2].sum().item()


class KeepsByFirstRow(KeepsByAddress):
    def key(self, x: Tensor) -> Hashable:
        return x[0, 0].numpy().tobytes()


class SkipsWorkOutsideTorch(KeepsByFirstElement):
    """Does its extra work outside torch: torch dispatches the same operations for new and for repeated inputs."""

    def forward(self, x: Tensor) -> Tensor:
        key = self.key(x)
        if key not in self.results:
            self.results = {key: x}
            end = time.perf_counter() + 200e-6
            while time.perf_counter() < end:
                pass
        return x * 1.0


class KeepsItsResultWhenLong(KeepsByAddress):
    """Correct at every n that is verified."""

    def key(self, x: Tensor) -> Hashable:
        return x.shape if x.shape[1] > 256 else object()


class LeaksThreads(Good):
    """Starts threads that the interpreter waits for at its end."""

    def misbehave(self) -> None:
        for _ in range(4):
            threading.Thread(target=time.sleep, args=(600,), daemon=False).start()


class Greedy(Good):
    def misbehave(self) -> None:
        self.hoard = []
        while True:
            self.hoard.append(torch.ones(2**22))


class GreedyInPython(Good):
    """Allocates without torch's allocator."""

    def misbehave(self) -> None:
        self.hoard = []
        while True:
            self.hoard.append(bytearray(2**24))


class GreedyInPieces(Good):
    """Allocates pieces so small that they come from the heap."""

    def misbehave(self) -> None:
        self.hoard = []
        while True:
            self.hoard.append(bytearray(2**12))


class SignalsItsParent(Good):
    """Ends the fork server, and thereby itself."""

    def misbehave(self) -> None:
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(600)


class KillsItsParent(Good):
    """Kills the fork server, then continues with a child of its own."""

    def misbehave(self) -> None:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)


class StopsItsParent(Good):
    def misbehave(self) -> None:
        os.kill(os.getppid(), signal.SIGSTOP)


class StopsItsParentInVerify(Good):
    def forward(self, x: Tensor) -> Tensor:
        if not measured_by("harness.core.trial.timing.sampler"):
            os.kill(os.getppid(), signal.SIGSTOP)
        return x * 1.0


class StopsItsParentInTiming(Good):
    """Stops its parent at every timed call, so again after the parent was resumed."""

    def forward(self, x: Tensor) -> Tensor:
        if measured_by("harness.core.trial.timing.sampler"):
            os.kill(os.getppid(), signal.SIGSTOP)
        return x * 1.0


class StopsItsAncestors(Good):
    """Stops its parent and grandparent, but not the driver. A child in its own session continues."""

    def misbehave(self) -> None:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        parent = psutil.Process().parent()
        assert parent is not None
        for pid in (parent.ppid(), parent.pid):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(600)


class ForksChildrenAndSleeps(ForksChildren):
    def misbehave(self) -> None:
        super().misbehave()
        time.sleep(600)


class StopsItself(Good):
    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)


class LeavesTemporaryFiles(Good):
    """Leaves a file in TMPDIR, and one in a new directory."""

    def misbehave(self) -> None:
        directory = tempfile.mkdtemp()
        for name in (os.environ["TMPDIR"], directory):
            with open(os.path.join(name, "left"), "wb") as file:
                file.write(bytes(2**10))


class FillsItsTemporaryDirectory(Good):
    def misbehave(self) -> None:
        with tempfile.NamedTemporaryFile(delete=False) as file:
            while True:
                file.write(bytes(2**20))


class StartsThreadsWithoutEnd(Good):
    """Starts threads until their stacks exceed the memory limit."""

    def misbehave(self) -> None:
        while True:
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


class StartsOpenMPWithoutRoom(Good):
    """The OpenMP library ends the process because it cannot start a thread."""

    def misbehave(self) -> None:
        ones, total = torch.ones(600, 600), torch.empty(600, 600)
        self.hoard = []
        with contextlib.suppress(MemoryError):
            while True:
                self.hoard.append(bytearray(2**20))
        torch.set_num_threads(4)
        self.hoard.pop()
        torch.add(ones, ones, out=total)  # needs nothing more but the stacks of the threads


class MayStartNoThread(Good):
    """Limits the number of its processes to 0, then starts a thread."""

    def misbehave(self) -> None:
        if os.geteuid() == 0:  # the limit does not apply to root
            os.setresuid(65534, 65534, 65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        threading.Thread(target=time.sleep, args=(600,)).start()
