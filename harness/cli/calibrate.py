"""`python -m harness calibrate`."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness.calibration import record
from harness.calibration.calibrate import Plan, calibrate
from harness.calibration.record import show_calibration
from harness.cli.commands import DONE
from harness.config import SweepConfig, compose
from harness.errors import UsageError
from harness.measure.progress import Screen
from harness.measure.session import Session

# A loop of short calls, a kernel, and a layer whose page faults take time in some processes but not in others.
_DEFAULTS = (
    "impl=rnn.torch,attention.fused,attention.packed",
    "seq_len=256,1024",
    "d_model=256",
    "num_heads=8",
)
_ONE_VALUE = ("device", "threads", "dtype")


def run_calibrate(options: argparse.Namespace) -> int:
    """Calibrate the machine, then print and save the results."""
    config = _config(options.overrides, options.config_dir)
    record.check_calibration_path(options.out)
    console = Console()
    plan = _plan(config, _precision_name(options.overrides))
    calibration = calibrate(
        plan,
        lambda trial_s: Session.of(replace(config, precision=replace(config.precision, trial_s=trial_s))).executor,
        lambda cases: Screen(cases, config.precision, console),
        lambda text: console.out(text, highlight=False),
    )
    record.save(calibration, options.out)
    show_calibration(calibration, console)
    console.out(f"{options.out}: took {calibration.took_s:.0f} s", highlight=False)
    return DONE


def _config(overrides: Sequence[str], config_dir: Path | None) -> SweepConfig:
    on_gpu = ("dtype=bfloat16",) if "device=cuda" in overrides else ()  # flash attention has no float32 on a GPU
    config = compose(overrides, config_dir, usual=[*_DEFAULTS, *on_gpu])
    if config.out is not None:
        raise UsageError(
            f"out={config.out} names the directory of a sweep; name the file of a calibration with --out FILE"
        )
    for axis in _ONE_VALUE:
        if len(config.axes[axis]) > 1:
            raise UsageError(f"{axis} takes one value here: calibrate each one by itself, with --out FILE")
    return config


def _precision_name(overrides: Sequence[str]) -> str:
    chosen = [text.partition("=")[2] for text in overrides if text.startswith("precision=")]
    name = chosen[-1] if chosen else "quick"
    return f"{name}, changed" if any(text.startswith("precision.") for text in overrides) else name


def _plan(config: SweepConfig, precision_name: str) -> Plan:
    with Session.of(config) as session:
        session.check_devices(config)
        cases = session.cases(config)
        for case in cases:
            if reason := session.indivisible_size(case):
                raise UsageError(f"{case}: {reason}")
    return Plan(cases, session.traits, config.precision, precision_name, config.seed)
