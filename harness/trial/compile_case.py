"""The trial in which a case is compiled: everything that its calls need is kept on disk for later trials."""

from time import perf_counter
from typing import Any

from harness.case import Case
from harness.trial.build import build
from harness.trial.timing.compiled import compile_s, load


class Stopwatch:
    """Seconds between the compiler's start and end callbacks. Nested compilation counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._began = 0.0

    def start(self, *_: object) -> None:
        """Record the compiler's start. The callback's arguments differ between torch versions and are ignored."""
        if self._depth == 0:
            self._began = perf_counter()
        self._depth += 1

    def stop(self, *_: object) -> None:
        """Record the compiler's end."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += perf_counter() - self._began


def take_compile(case: Case, seed: int) -> dict[str, Any]:
    """Compile everything that the case's calls need, including the setup (a graph for the backward pass, a prefill).

    - `compile_s`: seconds of compilation. Kernels compiled without torch's compiler (a user's own in Triton) are timed
      by their calls: what the first took beyond a later one.
    - `graphs`: how many graphs the compiler made.
    - `graph_breaks`: how often it returned control to Python within the layer.
    """
    from torch._dynamo.callback import callback_handler
    from torch._dynamo.utils import counters

    watch = Stopwatch()
    callback_handler.register_start_callback(watch.start)
    callback_handler.register_end_callback(watch.stop)
    work = build(case, seed)
    first_call_s = load(work.call, work.sync)
    begin = perf_counter()
    work.call()
    work.sync()
    warm_call_s = perf_counter() - begin
    # In older torch versions, the compiler does not report the start and end of a backward pass.
    seconds = max(watch.seconds, compile_s(first_call_s, warm_call_s))
    return {
        "compile_s": float(f"{seconds:.6g}"),
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(counters["graph_break"].values()),
    }
