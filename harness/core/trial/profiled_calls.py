"""Three calls of one case for a profiler, in a process of their own.

    python -m harness.core.trial.profiled_calls TOOL FILE impl=… seq_len=… …

TOOL is `torch`, which writes a Chrome trace into FILE, or a profiler that started this process. Such a profiler begins
and ends with the calls, and their range of NVTX has the case's name. `harness.cli.sweep` composes the command.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from harness.core.model import gpus
from harness.core.model.sweep_axes import AXES, Case

from . import environment, trial_kinds
from .compilation import call_until_compiled
from .timing.timed_trial import as_graph, open_device
from .workload import build

CALLS = 3
SEED = 0


def case_of(options: Sequence[str]) -> Case:
    """The case of `key=value` options, as `Case.key` writes them."""
    given = dict(option.split("=", 1) for option in options)
    return Case.from_dict({name: AXES[name].type(value) for name, value in given.items()})


def profile_calls(case: Case, tool: str, file: Path) -> None:
    """Build the case, warm it up, and make `CALLS` calls under the profiler. `torch` writes a Chrome trace into `file`.

    Raises Unsupported if the layer refuses the case, and what its calls raise.
    """
    work = build(case, SEED)
    call = work.call
    if case.launch == "graph":
        call = as_graph(open_device(case), work, case)
    for _ in range(CALLS):
        call_until_compiled(call, work.sync)
        work.forget()
    work.sync()
    with _by_torch(case, file) if tool == "torch" else _by_another(str(case)):
        for _ in range(CALLS):
            call()
            work.sync()


@contextmanager
def _by_torch(case: Case, file: Path) -> Iterator[None]:
    with torch.profiler.profile() as recorded, torch.profiler.record_function(str(case)):
        yield
    file.parent.mkdir(parents=True, exist_ok=True)
    recorded.export_chrome_trace(str(file))


@contextmanager
def _by_another(name: str) -> Iterator[None]:
    """Tell a profiler of CUDA where to begin and to end."""
    torch.cuda.profiler.start()
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()
        torch.cuda.profiler.stop()


def main(arguments: Sequence[str]) -> int:
    """Profile the case of the command line. Return the exit status: 3 if the layer failed, with the reason printed."""
    tool, file, *options = arguments
    try:
        case = case_of(options)
        case = replace(case, device=gpus.see_only(case.device))
        environment.set_allocator(case.allocator)
        profile_calls(case, tool, Path(file))
    except Exception as error:
        outcome = trial_kinds.outcome_of_exception(error)
        print(f"{outcome['status']}: {outcome['reason']}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
