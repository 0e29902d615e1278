"""A calibration of a machine without fault, to be spoilt one thing at a time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.extras.calibrate.machine_state import BackgroundLoad, MachineState
from harness.extras.calibrate.measure import Calibration, NoiseFloor

KEY = "impl=rnn.torch seq_len=64 d_model=32 num_heads=1 batch_size=1 mode=forward dtype=float32 device=cpu threads=2"
GOOD = Calibration(
    date="2026-01-31T12:00:00+00:00",
    host="bench",
    cpu_model="A Processor",
    gpu=None,
    torch_version="2.9.1",
    device="cpu",
    threads=2,
    dtype="float32",
    precision="quick",
    limits={"target": 0.05, "trial_s": 0.125},
    took_s=41.5,
    clock_s=3.1e-8,
    noise=NoiseFloor(0.021, 0.015, 0.034, 0.03, 54, 18),
    noise_between_repeats=0.024,
    noise_by_case={KEY: 0.031},
    disturbed_share=0.02,
    peak_flops_per_s={"float32": 1.5e11, "bfloat16": 4e11},
    peak_sizes={"float32": 2048, "bfloat16": 1024},
    bandwidth={
        "bandwidth_bytes_per_s": 2.5e10,
        "copy_bytes_per_s": 1.9e10,
        "triad_bytes_per_s": 2.5e10,
        "buffer_bytes": 2**27,
        "cache_bytes": 2**25,
    },
    failures=(),
    load=BackgroundLoad(steal_share=0.0, other_share=0.01, swapped_bytes=0, busiest=()),
    state=MachineState(
        usable_cpus=4,
        usable_cores=2,
        governors=("performance",),
        scaling_driver="acpi-cpufreq",
        turbo=False,
        smt=True,
        virtual=False,
        clocksource="tsc",
        huge_pages="madvise",
        cpu_quota=None,
        on_battery=False,
        swap_used_bytes=0,
        unreadable=(),
    ),
)


@pytest.fixture
def calibration() -> Calibration:
    return GOOD


@pytest.fixture
def spoilt() -> Callable[..., Calibration]:
    """`spoilt(turbo=True)`: the good one with other values, of whichever of its parts has a field of that name."""

    def make(**changes: Any) -> Calibration:
        made = GOOD
        for name, value in changes.items():
            part = next((p for p in ("noise", "load", "state") if name in vars(getattr(made, p))), None)
            own = {name: value} if part is None else {part: replace(getattr(made, part), **{name: value})}
            made = replace(made, **own)
        return made

    return make
