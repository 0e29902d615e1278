"""The trial in which a case is compiled: all that its calls need, kept on disk for the trials after it."""

from time import perf_counter
from typing import Any

from harness.case import Case
from harness.trial.build import build
from harness.trial.timing.compiled import compile_s, load


class Stopwatch:
    """Seconds between the compiler's beginning and its end, by its own word; compiling within compiling counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._began = 0.0

    def start(self, *_: object) -> None:
        """It begins. What it says beside that differs from version to version."""
        if self._depth == 0:
            self._began = perf_counter()
        self._depth += 1

    def stop(self, *_: object) -> None:
        """It ends."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += perf_counter() - self._began


def take_compile(case: Case, seed: int) -> dict[str, Any]:
    """`compile_s` of everything that the case's calls compile, setup included (a graph to go back through, a prefill).

    Kernels that are compiled without torch's compiler (somebody's own in Triton) are timed by their call: what the
    first took beyond a later one. `graphs` is how many the compiler made, `graph_breaks` how often it left the layer to
    Python in between.
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
    # In older versions of torch the compiler does not say when it begins and ends a backward pass.
    seconds = max(watch.seconds, compile_s(first_call_s, warm_call_s))
    return {
        "compile_s": float(f"{seconds:.6g}"),
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(counters["graph_break"].values()),
    }
