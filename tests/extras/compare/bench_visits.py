"""Whether the noise is of the process or of the moment.

HARNESS_BENCH_VISITS=40     of each process, for the components of the variance
"""

import math
import os
import random
import time
from contextlib import ExitStack

import numpy as np

from benchmarks.peers.grid import CASES
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.extras.compare.turn_trial import begin_turns

# Processes of each layer, rounds in which each is visited once, and the length of a visit.
PROCESSES, VISITS, VISIT_S = 4, int(os.environ.get("HARNESS_BENCH_VISITS", "40")), 0.01
VISITED = [case for case in CASES if case.seq_len == 512]


def test_variance_components() -> None:
    """Whether the noise is of the process or of the moment: visits of processes that stay, and fresh ones beside them.

    In each round, every process of a layer is visited once, in random order, and one fresh process is timed.
    """
    print(f"\nstandard deviation of log(fastest sample of {1e3 * VISIT_S:.0f} ms), {VISITS} visits a process")
    titles = (
        "kept: visits",
        "processes",
        "rebuilt: visits",
        "processes",
        "fresh process",
        "lag 1",
        "ms a visit: kept",
        "rebuilt",
        "fresh",
    )
    print(" " * 22 + "".join(f"{title:>18}" for title in titles))
    for case in VISITED:
        kept, rebuilt, fresh = (_visit(case, kind) for kind in ("kept", "rebuilt", "fresh"))
        cells = [*_components(kept[0]), *_components(rebuilt[0]), fresh[0].std(ddof=1), _lag(kept[0])]
        costs = [1e3 * seconds for _, seconds in (kept, rebuilt, fresh)]
        print(
            f"{case.impl:<22}" + "".join(f"{cell:>18.3f}" for cell in cells) + "".join(f"{ms:>18.1f}" for ms in costs)
        )


def _visit(case: Case, kind: str) -> tuple[np.ndarray, float]:
    """Log times of each visit (processes, visits), and the seconds that a visit takes.

    Processes that are not visited are stopped. A `rebuilt` process builds its layer anew for each visit.
    """
    draw = random.Random(0)
    logs: list[list[float]] = [[] for _ in range(PROCESSES)]
    with ExitStack() as stack:
        executors = [
            stack.enter_context(Executor(seed=number, trial_s=VISIT_S, timeout_s=60)) for number in range(PROCESSES)
        ]
        for executor in executors:
            executor.run("machine")  # its fork server has started when this returns
        trials = [] if kind == "fresh" else [begin_turns(executor, case, VISIT_S) for executor in executors]
        for trial in trials:
            stack.callback(trial.abandon)
            trial.wait_until_warm()
        began = time.monotonic()
        for _ in range(VISITS):
            for which in draw.sample(range(PROCESSES), PROCESSES):
                if kind == "fresh":
                    value = executors[0].run("time", case).values
                    logs[which].append(math.log(min(value["samples_s"])))
                else:
                    logs[which].append(math.log(trials[which].turn(anew=kind == "rebuilt").min_s))
        return np.array(logs), (time.monotonic() - began) / (VISITS * PROCESSES)


def _components(logs: np.ndarray) -> tuple[float, float]:
    """The standard deviations between visits of one process, and between processes, from (processes, visits)."""
    within = float(logs.var(axis=1, ddof=1).mean())
    between = float(logs.mean(axis=1).var(ddof=1)) - within / logs.shape[1]
    return math.sqrt(within), math.sqrt(max(between, 0.0))


def _lag(logs: np.ndarray) -> float:
    """The correlation of a process's visits with its next ones."""
    off = logs - logs.mean(axis=1, keepdims=True)
    return float((off[:, 1:] * off[:, :-1]).sum() / (off**2).sum())
