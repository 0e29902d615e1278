"""A simulated GPU with known costs.

    gpu = SimGpu(...)                     the hardware, its driver and the host that feeds it
    call = gpu.layer(kernels=3, ...)      a call, which knows its true costs: `hot_s`, `cold_s`, `clean_s`, `graph_s`
    device = gpu.device(monkeypatch)      the harness's own TorchDevice on this GPU

Two stand-ins for torch use it: `few_functions.py` for quick tests of the sampler, and `simulated_cuda` for whole
commands. So this module imports neither torch nor the harness.

Time is computed when work is enqueued: each stream is executed in order, so the begin of a kernel is known then. All
times are in seconds, and nothing is random without a seed.
"""

import math
import random
from bisect import bisect
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.trial.timing.cuda.clock_and_cache import EVICTED, SimClock, SimL2

# The share of launches that a stall of the host delays.
STALLED = 0.01
_AFTER_FAILURE = "operation failed due to a previous error during capture"
WATTS = {"idle": 100.0, "spin": 150.0, "flush": 400.0, "kernel": 600.0}


@dataclass
class Kernel:
    """A kernel: cycles of arithmetic, then what it reads and overwrites. A first launch may need a workspace.

    If it `overlaps` both, the longer of the two counts. It takes `longer` times as long as all this. Autograd
    launches it on the `stream` of the forward pass. It may draw random numbers.
    """

    name: str
    cycles: float
    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    kind: str = "kernel"
    workspace_bytes: int = 0
    overlaps: bool = False
    longer: float = 1.0
    stream: int | None = None
    draws: bool = False


@dataclass
class Entry:
    """What one stream does from `begin_s` to `end_s`."""

    begin_s: float
    end_s: float
    kind: str


class SimEvent:
    def __init__(self, gpu: "SimGpu", enable_timing: bool = False) -> None:
        self.gpu, self.timed, self.reached_at = gpu, enable_timing, math.inf
        self.made = False

    def __del__(self) -> None:
        self.gpu.spare_events += self.made

    def record(self, stream: int | None = None) -> None:
        if not self.made:
            self.made = True
            self.gpu.now += self.gpu.event_make_s * (self.gpu.spare_events == 0)
            self.gpu.spare_events = max(0, self.gpu.spare_events - 1)
        self.reached_at = self.gpu.enqueue("event", lambda begin: self.gpu.event_s, self.gpu.event_launch_s, stream)

    def query(self) -> bool:
        self.gpu.now += self.gpu.query_s
        return self.reached_at <= self.gpu.now

    def synchronize(self) -> None:
        self.gpu.now = max(self.gpu.now, self.reached_at) + self.gpu.wait_s

    def elapsed_time(self, end_event: "SimEvent") -> float:
        if not (self.timed and end_event.timed):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if max(self.reached_at, end_event.reached_at) > self.gpu.now:
            raise RuntimeError("CUDA error: device not ready")
        return 1e3 * (self.gpu.ticks(end_event.reached_at) - self.gpu.ticks(self.reached_at))


class SimGenerator:
    """Random numbers as in torch up to 2.12: they are drawn in a capture if, and only if, a capture has begun."""

    def __init__(self, gpu: "SimGpu") -> None:
        self.gpu, self.capturing = gpu, False

    def draw(self) -> None:
        """A kernel draws numbers."""
        if self.capturing != (self.gpu.recording is not None):
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")

    def clone_state(self) -> "SimGenerator":
        return SimGenerator(self.gpu)

    def graphsafe_set_state(self, other: "SimGenerator") -> None:
        self.capturing = other.capturing


class SimGauge:
    """NVML: a query takes the host a while, and a reading is `queries` of them.

    Power is an average over a second, and energy is renewed every 0.1 s. The query of energy takes longer than the
    others: 3.6 ms on an H200 at rest.
    """

    is_open = True
    query_s, energy_query_s = 1e-3, 3.6e-3
    queries = 5
    renewed_s = 0.1

    def __init__(self, gpu: "SimGpu") -> None:
        self.gpu = gpu
        self.sm_clock_max_mhz = gpu.clock.boost_hz / 1e6
        self.seen: list[str] = []
        self.powers_w: list[float] = []

    def read(self) -> None:
        """Note what the GPU did."""
        self.seen.append(self.gpu.doing())
        self.powers_w.append(self.gpu.joules(self.gpu.now) - self.gpu.joules(self.gpu.now - 1.0))
        self.gpu.now += self.queries * self.query_s

    def energy_j(self) -> float:
        """The energy since the beginning, as old as the counter."""
        self.gpu.now += self.energy_query_s
        return self.gpu.joules(math.floor(self.gpu.now / self.renewed_s) * self.renewed_s)

    def facts(self) -> dict[str, Any]:
        """As `NvmlGauge.facts`."""
        return {"sm_clock_mhz": self.sm_clock_max_mhz, "power_w": self.powers_w[-1] if self.powers_w else None}


@dataclass
class SimCall:
    """A call and its true costs at the boost clock, in seconds of the GPU. A cold cache is dirty unless it is clean.

    `graph_s` is the cold cost as a graph, without the graph's launch.
    """

    launch: Callable[[], None]
    hot_s: float
    cold_s: float
    clean_s: float
    graph_s: float

    def cold_by(self, way: str) -> float:
        """The cold cost of what is timed: launches that are `held` in the queue, or a `graph`."""
        return {"held": self.cold_s, "graph": self.graph_s}[way]

    def __call__(self) -> None:
        self.launch()


class SimGpu:
    """A GPU and its host. `now` is the host's time.

    - `depth`: entries of the launch queue; a full queue stops the host.
    - `launch_s`, `event_launch_s`, `wait_s`, `query_s`: the host's costs. `jitter` is the spread of its launches, as a
      logarithm; one in a hundred takes `stall_s` longer. Its speed changes by the share `drift` within milliseconds.
    - `event_s`: what an empty pair of events reads. Times of events are multiples of `tick_s`. The driver makes an
      event in `event_make_s` unless it has a spare one.
    - `gap_s`, `graph_gap_s`, `graph_launch_s`: between two kernels, between two kernels of a graph, before a graph. The
      last one has the spread `launch_jitter`, as a logarithm.
    - `spin_cycles`: what a spin takes beside the cycles that were asked for.
    - `graph_node_s`: the host's cost of a graph's launch for each of its kernels.
    - `lazy_s`: the first launch of each kernel or graph waits until the GPU is idle, and takes so much longer.
    - `neighbours`: times, from and until, at which another process has the GPU.
    """

    def __init__(
        self,
        *,
        depth: int = 1000,
        launch_s: float = 2e-6,
        event_launch_s: float = 2e-6,
        wait_s: float = 10e-6,
        query_s: float = 1e-7,
        event_s: float = 1e-6,
        event_make_s: float = 0.0,
        tick_s: float = 0.0,
        gap_s: float = 0.0,
        spin_cycles: float = 0.0,
        graph_gap_s: float = 0.0,
        graph_launch_s: float = 2e-6,
        launch_jitter: float = 0.0,
        graph_node_s: float = 0.0,
        lazy_s: float = 0.0,
        jitter: float = 0.0,
        stall_s: float = 0.0,
        drift: float = 0.0,
        seed: int = 0,
        l2_bytes: int = 2**20,
        bytes_per_s: float = 1e12,
        evicted: float = EVICTED,
        clock: SimClock | None = None,
        neighbours: tuple[tuple[float, float], ...] = (),
    ) -> None:
        self.depth, self.launch_s, self.event_launch_s = depth, launch_s, event_launch_s
        self.wait_s, self.query_s, self.event_s, self.tick_s = wait_s, query_s, event_s, tick_s
        self.event_make_s, self.spare_events = event_make_s, 0
        self.spin_cycles = spin_cycles
        self.gap_s, self.graph_gap_s, self.graph_launch_s, self.lazy_s = gap_s, graph_gap_s, graph_launch_s, lazy_s
        self.launch_jitter, self.graph_node_s = launch_jitter, graph_node_s
        self.jitter, self.stall_s, self.drift, self.draw = jitter, stall_s, drift, random.Random(seed)
        self.l2, self.bytes_per_s = SimL2(l2_bytes, evicted), bytes_per_s
        self.clock, self.neighbours = clock or SimClock(), neighbours
        self.now, self.stream = 0.0, 0
        self.idle_at: dict[int, float] = {0: 0.0}
        self.entries: deque[Entry] = deque()
        self.holds: list[float] = []
        self.waits = 0
        self.reserved_bytes = 0
        self.recording: list[Kernel] | None = None
        self.generator, self._invalid, self._allocates_to_graph = SimGenerator(self), False, False
        self._queue: deque[float] = deque()
        self._loaded: set[str] = set()
        self._written: dict[str, tuple[int, float]] = {}  # of each array: the stream that wrote it last, and until when
        self._ends, self._joules = [0.0], [0.0]
        self.gauge = SimGauge(self)

    def time(self) -> float:
        """The host's clock."""
        return self.now

    def ticks(self, seconds: float) -> float:
        """A time as the GPU's clock resolves it."""
        return math.floor(seconds / self.tick_s) * self.tick_s if self.tick_s else seconds

    def host(self, seconds: float) -> None:
        """The host works."""
        seconds *= 1 + self.drift * math.sin(2 * math.pi * self.now / 7e-3)
        if self.jitter:
            seconds *= math.exp(self.draw.gauss(0.0, self.jitter))
            seconds += self.stall_s * (self.draw.random() < STALLED)
        self.now += seconds

    def enqueue(self, kind: str, lasts: Callable[[float], float], launch_s: float, stream: int | None = None) -> float:
        """Enqueue something that begins in its turn and `lasts` a time that depends on its begin. Return its end."""
        which = self.stream if stream is None else stream
        self.host(launch_s)
        while self._queue and self._queue[0] <= self.now:
            self._queue.popleft()
        if len(self._queue) >= self.depth:
            self.now = max(self.now, self._queue.popleft())
        begin = max(self.now, self.idle_at.setdefault(which, 0.0))
        for since, until in self.neighbours:
            begin = until if since <= begin < until else begin
        end = begin + lasts(begin)
        self.idle_at[which] = end
        self._queue.append(end)
        self.entries.append(Entry(begin, end, kind))
        if kind != "event":
            self._count_energy(begin, end, kind)
        while self.entries and self.entries[0].end_s < self.now - 2.0:
            self.entries.popleft()
        return end

    def launch(self, kernel: Kernel, launch_s: float | None = None) -> None:
        """Launch a kernel."""
        if kernel.draws:
            self.generator.draw()
        if self.recording is not None:
            self.host(self.launch_s)
            if self._invalid:
                raise RuntimeError(f"CUDA error: {_AFTER_FAILURE}")
            if kernel.stream not in (None, self.stream):
                self._refuse("operation would make the legacy stream depend on a capturing blocking stream")
            self.recording.append(kernel)
            return
        if self._load(kernel.name):
            self.allocate(kernel.workspace_bytes)
        stream, present = self.stream if kernel.stream is None else kernel.stream, self.stream
        self.join(stream, present)
        self.enqueue(kernel.kind, lambda begin: self._lasts(kernel, begin, stream), launch_s or self.launch_s, stream)
        self.join(present, stream)

    def join(self, waiting: int, other: int) -> None:
        """What is enqueued on a stream from now on waits for all of the other one. Streams that torch makes do not."""
        both = self.idle_at.setdefault(waiting, 0.0), self.idle_at.setdefault(other, 0.0)
        self.idle_at[waiting] = max(both)

    def begin_capture(self, kernels: list[Kernel]) -> None:
        """Record what is launched in place of launching it."""
        if self._allocates_to_graph:  # torch empties its cache before a capture
            raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")
        self.recording, self._invalid, self.generator.capturing, self._allocates_to_graph = kernels, False, True, True

    def end_capture(self) -> None:
        """End the capture. Raises RuntimeError if it has failed. Generator and allocator then do not know of it."""
        self.recording = None
        if self._invalid:
            raise RuntimeError(f"CUDA error: {_AFTER_FAILURE}")
        self.generator.capturing = self._allocates_to_graph = False

    def end_allocation(self) -> None:
        """The allocator ends to take memory from a graph's pool."""
        if not self._allocates_to_graph:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self._allocates_to_graph = False

    def _refuse(self, why: str) -> None:
        self._invalid = True
        raise RuntimeError(f"CUDA error: {why}")

    def _load(self, name: str) -> bool:
        """Load a kernel or graph unless it is there. Return whether it was not."""
        if name in self._loaded:
            return False
        self._loaded.add(name)
        if self.lazy_s:
            self.now = max(self.now, *self.idle_at.values()) + self.lazy_s
        return True

    def allocate(self, nbytes: int) -> None:
        """Fetch memory from the driver, which waits for the GPU. Torch's allocator does so for new memory only."""
        if nbytes:
            self.now = max(self.now, *self.idle_at.values()) + 100e-6
            self.reserved_bytes += nbytes

    def _lasts(self, kernel: Kernel, begin: float, stream: int, gap_s: float | None = None) -> float:
        computing_s = kernel.cycles / self.clock.at(begin)
        crossing = sum(self.l2.traffic(array, size, False) for array, size in kernel.reads.items())
        crossing += sum(self.l2.traffic(array, size, True) for array, size in kernel.writes.items())
        crossing_s = crossing / self.bytes_per_s
        seconds = max(computing_s, crossing_s) if kernel.overlaps else computing_s + crossing_s
        seconds = (self.gap_s if gap_s is None else gap_s) + kernel.longer * seconds
        if kernel.kind == "kernel":
            self.clock.worked(begin + seconds)
        for array in (*kernel.reads, *kernel.writes):
            writer, until = self._written.get(array, (stream, 0.0))
            if writer != stream and begin < until:
                raise RuntimeError(
                    f"{kernel.name} on stream {stream} does not wait until stream {writer} wrote {array}"
                )
        self._written |= dict.fromkeys(kernel.writes, (stream, begin + seconds))
        return seconds

    def sync(self) -> None:
        """Wait until all streams are empty."""
        if self.recording is not None:
            self._refuse("operation not permitted when stream is capturing")
        self.waits += 1
        self.now = max(self.now, *self.idle_at.values()) + self.wait_s

    def replay(self, kernels: list[Kernel]) -> None:
        """Launch a graph: one entry of the queue, but the host pays for each kernel."""
        self._load(f"graph {id(kernels)}")
        spread = math.exp(self.draw.gauss(0.0, self.launch_jitter)) if self.launch_jitter else 1.0

        def lasts(begin: float) -> float:
            at = begin + self.graph_launch_s * spread
            for place, kernel in enumerate(kernels):
                at += self._lasts(kernel, at, self.stream, self.graph_gap_s if place else self.gap_s)
            return at - begin

        self.enqueue("kernel", lasts, self.launch_s + self.graph_node_s * len(kernels))

    def doing(self) -> str:
        """What the GPU does at the host's present time."""
        kinds = {entry.kind for entry in self.entries if entry.begin_s <= self.now < entry.end_s}
        return next((kind for kind in ("kernel", "spin") if kind in kinds), "idle")

    def joules(self, at_s: float) -> float:
        """The energy used until then. The GPU rests after the last work."""
        resting_j = WATTS["idle"] * max(0.0, at_s - self._ends[-1])
        after = min(bisect(self._ends, at_s), len(self._ends) - 1)
        since, until = self._ends[max(0, after - 1)], self._ends[after]
        share = min(1.0, max(0.0, at_s - since) / max(until - since, 1e-12))
        before_j = self._joules[max(0, after - 1)]
        return before_j + share * (self._joules[after] - before_j) + resting_j

    def _count_energy(self, begin: float, end: float, kind: str) -> None:
        last_s = self._ends[-1]
        if begin > last_s:
            self._ends.append(begin)
            self._joules.append(self._joules[-1] + WATTS["idle"] * (begin - last_s))
        if end > last_s:  # streams that work at the same time count once
            self._ends.append(end)
            self._joules.append(self._joules[-1] + WATTS.get(kind, 0.0) * (end - max(begin, last_s)))

    def layer(
        self,
        kernels: int,
        kernel_s: float,
        launch_s: float | None = None,
        reads_bytes: int = 0,
        workspace_bytes: int = 0,
    ) -> SimCall:
        """A call of so many kernels, each of `kernel_s` at the boost clock. The first one reads so many bytes."""
        cycles = kernel_s * self.clock.boost_hz
        first = Kernel(f"first {id(self)}", cycles, {"weights": reads_bytes} if reads_bytes else {})
        first.workspace_bytes = workspace_bytes
        others = Kernel("others", cycles)

        def call() -> None:
            for place in range(kernels):
                self.launch(others if place else first, launch_s)

        hot_s = kernels * (kernel_s + self.gap_s)
        read_s = reads_bytes / self.bytes_per_s
        cold_s = hot_s + (1 + self.l2.evicted) * read_s
        graph_s = cold_s - (kernels - 1) * (self.gap_s - self.graph_gap_s)
        return SimCall(call, hot_s, cold_s, hot_s + read_s, graph_s)

    def device(self, patch: Any) -> Any:
        """The harness's device on this GPU, while pytest's `patch` lasts."""
        from core.trial.timing.cuda.few_functions import device_on

        return device_on(self, patch)
