"""Made-up runs of any size: rows as a sweep writes them, with times from a law plus noise."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from harness.core.config import compose
from harness.core.layers.layer_lookup import claims_of_impl
from harness.core.model.sweep_axes import Case
from harness.core.results import row_files, run_directory

HEADS = (1, 2, 4, 8, 16, 32)
ATTENTION = ("attention.naive", "attention.packed", "attention.fused")
RNN = ("rnn.elman", "rnn.torch")
# The cases at each n, d, b and mode: the impls and heads above.
_AT_A_SIZE = len(ATTENTION) * len(HEADS) + len(RNN)
_OPS_PER_S = {"attention.naive": 4e10, "attention.packed": 2e10, "attention.fused": 8e10, "rnn.elman": 1e10}
# A row is then about 1.5 KB long, as those of the default sweep are in the mean.
_SAMPLES = (20, 130)
_PROBE_S = 7.5e-5


@dataclass(frozen=True)
class Shape:
    """`cases` cases, a multiple of 20, each with `trials` timed trials."""

    cases: int
    trials: int

    def __str__(self) -> str:
        return f"{self.cases:,} × {self.trials:,}"


def grid_of(number: int) -> list[Case]:
    """`number` cases: a full grid of impl, n and h, and as far as it takes of d, mode and b."""
    lengths = min(12, number // _AT_A_SIZE)
    sizes = itertools.product((1, 2, 4, 8, 16, 32), ("forward", "train"), range(64, 64 * 65, 64))
    cases: list[Case] = []
    for batch_size, mode, d in sizes:
        for n in (64 * 2**i for i in range(lengths)):
            cases += [Case(impl, n, d, h, batch_size, mode) for impl in ATTENTION for h in HEADS]
            cases += [Case(impl, n, d, 1, batch_size, mode) for impl in RNN]
        if len(cases) >= number:
            return cases[:number]
    raise ValueError(f"no grid of {number} cases")


def write_run(run: Path, shape: Shape, precision: str = "strict", seed: int = 0) -> None:
    """A run's directory with the rows of a whole sweep: verification, facts, then rounds."""
    run_directory.create(run, compose([f"precision={precision}"]).yaml, {"host": "nowhere"})
    cases = grid_of(shape.cases)
    rng = np.random.default_rng(seed)
    with (run / "rows" / "nowhere-1.jsonl").open("wb") as file:
        for row in itertools.chain(_verified(cases), _facts(cases), _timed(cases, shape.trials, rng)):
            file.write(orjson.dumps({"schema": row_files.SCHEMA, **row}) + b"\n")


def _row(case: Case, purpose: str, number: int) -> dict[str, Any]:
    return {
        "key": case.key,
        "case": case.as_dict(),
        "family": case.impl.split(".")[0],
        "purpose": purpose,
        "round": number,
        "at": 1795268186.747,
        "status": "ok",
        "reason": None,
    }


def _verified(cases: list[Case]) -> Iterator[dict[str, Any]]:
    for case in cases:
        found = {"tolerance": 2.3e-06, "output_error": 3.8e-07, "wall_s": 0.036, "verified": case.small().as_dict()}
        yield {**_row(case, "verify", 0), **found}


def _facts(cases: list[Case]) -> Iterator[dict[str, Any]]:
    for case in cases:
        n, d, h, b = case.seq_len, case.d_model, case.num_heads, case.batch_size
        words = n * d + (h * n * n if case.impl in ("attention.naive", "attention.packed") else 0)
        exact = {
            "flops": _work(case),
            "flops_full": _work(case),
            "flops_claimed": _work(case),
            "ops": 29,
            "depth": 7 if case.impl in ATTENTION else 3 * n,
            "depth_declared": 0,
            "min_bytes": 16 * d * d + 8 * b * n * d,
            "weights_bytes": 16 * d * d,
            "inputs_bytes": 4 * b * n * d,
            "saved_bytes": 0,
            "transient_bytes": 4 * b * words,
            "peak_bytes": 4 * b * words,
            "peak_resident_bytes": 5 * b * words,
            "backend": "ATen",
            "backend_fallback": None,
            "facts_unknown": [],
        }
        yield {**_row(case, "facts", 0), **exact, "wall_s": 0.037}


def _work(case: Case) -> int:
    claim = claims_of_impl(case.impl)["work_train" if case.mode == "train" else "work"]
    return case.batch_size * claim(case.seq_len, case.d_model, case.num_heads)


def _timed(cases: list[Case], trials: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    true_s = [2e-5 + _work(case) / _OPS_PER_S.get(case.impl, 2e10) for case in cases]
    rows = [_row(case, "time", 0) for case in cases]
    for number in range(1, trials + 1):
        slow = rng.random(len(cases)) < 0.2
        trial_s = true_s * np.exp(rng.normal(0, 0.02, len(cases))) * np.where(slow, 1.3, 1.0)
        for i in rng.permutation(len(cases)):
            samples = trial_s[i] * (1 + rng.exponential(0.02, rng.integers(*_SAMPLES)))
            yield {**rows[i], "round": number, **_readings(samples, bool(slow[i]), rng)}


def _readings(samples: np.ndarray, slow: bool, rng: np.random.Generator) -> dict[str, Any]:
    sampling_s = float(samples.sum())
    return {
        "samples_s": [float(f"{sample:.6g}") for sample in samples],
        "calls_per_sample": 1,
        "first_call_s": float(f"{3 * samples[0]:.6g}"),
        "warmup_s": float(f"{10 * samples[0]:.6g}"),
        "sampling_s": float(f"{sampling_s:.6g}"),
        "clock_s": 9.67e-08,
        "minor_faults": int(rng.integers(0, 40)),
        "major_faults": 0,
        "involuntary_switches": int(rng.integers(0, 16)),
        "cpu_s": float(f"{1.9 * sampling_s:.6g}"),
        "steal_ticks": int(slow),
        "machine_ticks": 20,
        "probe_s": _PROBE_S * (1.3 if slow else 1.0) * float(rng.uniform(1.0, 1.05)),
        "cpu_mhz": None,
        "compile_s": 0.0,
        "wall_s": float(f"{sampling_s + 0.05:.6g}"),
    }
