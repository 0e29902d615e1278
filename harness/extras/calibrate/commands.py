"""The command `calibrate`: whether the machine is fit to measure on."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from harness.cli.commands import DONE
from harness.cli.parsers import add_out, add_overrides
from harness.core.model.errors import UsageError

if TYPE_CHECKING:
    from harness.core.config import SweepConfig
    from harness.core.model.sweep_axes import Case
    from harness.core.run.executor import Executor

    from .measure import Plan

# The file in which a calibration is saved: `harness.extras.calibrate.record.PATH`.
_PATH = Path("results", "calibration.json")


def _calibrate(parser: argparse.ArgumentParser) -> None:
    """Report whether this machine is fit to measure on: its noise, peaks and settings.

    The command first measures the peaks, FLOP/s by dtype and memory bandwidth, and saves them. Then it measures the
    noise floor: how far repeated measurements of the same cases lie apart. No smaller slow-down can be distinguished
    from noise at this precision. It also measures the cost of reading the clock, and reads governor, turbo,
    hyper-threads, quotas, steal and other load. Then it prints plain advice.

    With precision=quick, this takes about a minute on a CPU and about 3 minutes on a GPU (an estimate).

    The result is saved to results/calibration.json. Every later sweep on this machine copies it into its machine.json.
    If the command is interrupted, the file has the peaks alone, which is enough for the roofline and `of_peak`. A
    complete calibration of this machine stays until the new one is complete.

    examples:
      python -m harness calibrate
      python -m harness calibrate precision=standard threads=1
      python -m harness calibrate impl=my.module:MyLayer seq_len=512

    exit status: 0 done, whatever the verdict; 2 usage error; 130 interrupted
    """
    add_overrides(parser, "as in sweep: precision=… threads=… device=…")
    add_out(parser, f"a file to write or replace; default: {_PATH}", "FILE", default=_PATH)


# A loop of short calls, a kernel, and a layer whose page faults take time in some processes but not in others.
_CALIBRATION = ("impl=rnn.torch,attention.fused,attention.packed", "seq_len=256,1024", "d_model=256", "num_heads=8")
# Smaller sizes would tell how long launches take. Flash attention has no float32 on a GPU. A trial takes two seconds
# there, so two cases must do.
_ON_GPU = ("impl=rnn.torch,attention.fused", "seq_len=4096", "d_model=1024", "num_heads=16", "dtype=bfloat16")


def run_calibrate(options: argparse.Namespace) -> int:
    """Calibrate the machine, then print and save the results. The peaks are saved before the noise is measured."""
    from . import record
    from .measure import measure_peaks, with_noise

    config = _calibration_config(options.overrides, options.config_dir)
    record.check_calibration_path(options.out)
    console = Console(highlight=False)
    plan = _plan(config, _precision_name(options.overrides), console)
    console.out("peaks and noise floor: with precision=quick about a minute, on a GPU about 3 minutes (an estimate)")
    peaks = measure_peaks(plan)
    on_disk = record.save_peaks(peaks, options.out)
    try:
        console.out(on_disk)
        calibration = with_noise(peaks, plan)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{on_disk}; repeat the command to measure the noise floor") from None
    record.save(calibration, options.out)
    record.show_calibration(calibration, console)
    console.out(f"{options.out}: took {calibration.took_s:.0f} s")
    return DONE


def _calibration_config(overrides: Sequence[str], config_dir: Path | None) -> "SweepConfig":
    from harness.core.config import compose

    on_gpu = any(text.startswith("device=") and text != "device=cpu" for text in overrides)
    config = compose(overrides, config_dir, usual=_ON_GPU if on_gpu else _CALIBRATION)
    for axis in ("device", "threads", "dtype", "env"):
        if len(config.axes[axis]) > 1:
            raise UsageError(f"{axis} takes one value here: calibrate each one by itself, with -o FILE")
    return config


def _precision_name(overrides: Sequence[str]) -> str:
    name = next((text.partition("=")[2] for text in overrides if text.startswith("precision=")), "quick")
    return f"{name}, changed" if any(text.startswith("precision.") for text in overrides) else name


def _plan(config: "SweepConfig", precision_name: str, console: Console) -> "Plan":
    from harness.core.run.expected_time import ExpectedTime
    from harness.core.run.progress import Screen
    from harness.core.run.session import Session

    from .measure import Plan

    precision = config.precision

    def executor_for(trial_s: float) -> "Executor":
        return Session.of(replace(config, precision=replace(precision, trial_s=trial_s))).executor

    def watcher_for(cases: Sequence["Case"]) -> Screen:
        return Screen(cases, ExpectedTime(precision), console)

    with Session.of(config) as session:
        session.check_devices(config)
        cases = session.cases(config)
        for case in cases:
            if reason := session.indivisible_size(case):
                raise UsageError(f"{case}: {reason}")
    return Plan(cases, session.layers, precision, precision_name, executor_for, watcher_for, console.out)
