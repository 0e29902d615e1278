"""Synthetic runs whose true times are known: measured with noise of a kind, summarised, fitted and smoothed."""

from collections.abc import Iterator

import numpy as np
from core.stats.noise import Draw
from core.stats.population import Spreads
from rows import row

from harness.core.config import Precision
from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise
from harness.core.stats.interval import LEVEL
from harness.study.laws.fitted_laws import fit_laws
from harness.study.laws.smoothing import with_times_in_law

TRIALS = 8
PRECISION = Precision(target=0.05, min_rounds=3, max_rounds=8, trial_s=0.03, timeout_s=9, case_s=100, patience_s=1)
SIZES = (64, 128, 256, 512, 1024, 2048)
LAYERS = ("attention.naive", "attention.packed", "attention.fused", "rnn.elman", "rnn.torch")


def law_of(case: Case) -> float:
    """The time of a case by theory, without its misfit."""
    n, d, h = case.seq_len, case.d_model, case.num_heads
    if case.impl.startswith("rnn"):
        return (4.0 * n * d * d) / 6e10 + (5e-6 if case.impl == "rnn.elman" else 4e-6) * n
    scores = {"attention.naive": 2e-9, "attention.packed": 1e-9, "attention.fused": 2e-10}[case.impl]
    return 2e-5 + (8.0 * n * d * d + 4.0 * n * n * d) / 1e11 + scores * h * n * n


def cases() -> Iterator[Case]:
    for impl in LAYERS:
        for n in SIZES:
            for d in (128, 256):
                for h in (1,) if impl.startswith("rnn") else (2, 8):
                    yield Case(impl, n, d, h)


def flops_of(case: Case) -> int:
    n, d = case.seq_len, case.d_model
    return 4 * n * d * d if case.impl.startswith("rnn") else 8 * n * d * d + 4 * n * n * d


def smoothed_run(
    draw: Draw, machine: Spreads, seed: int, misfit: float = 0.03, broken: float = 1.0
) -> tuple[list[CaseResult], dict[Case, float]]:
    """The lines of a run and the true time of each case.

    Each case is off its law by a normal error of `misfit`. Packed attention costs `broken` times its law where its
    scores are large, which no law of its counts explains.
    """
    rng = np.random.default_rng(seed)
    rows, truth = [], {}
    every = list(cases())
    logs = np.log([law_of(case) for case in every]) + misfit * rng.standard_normal(len(every))
    large = np.array([case.impl == "attention.packed" and case.num_heads * case.seq_len**2 > 2**21 for case in every])
    logs = logs + np.where(large, np.log(broken), 0.0)
    for case, log, scale in zip(every, logs.tolist(), np.exp(machine(rng, logs)).tolist(), strict=True):
        trials = draw(rng, (1, TRIALS), scale)[0]
        truth[case] = float(np.exp(log + np.quantile(draw(rng, (1, 4_000), scale)[0], LEVEL)))
        counted = flops_of(case)
        rows.append(row(case, "facts", flops=counted, flops_full=counted, peak_bytes=4 * case.seq_len * case.d_model))
        rows += [
            row(case, "time", i, samples_s=[float(np.exp(log + trial))] * 2, probe_s=1e-4)
            for i, trial in enumerate(trials.tolist())
        ]
    lines = summarise(rows, PRECISION)
    return with_times_in_law(lines, fit_laws(lines)), truth
