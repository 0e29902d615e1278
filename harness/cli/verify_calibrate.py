"""The commands `verify` and `calibrate`: whether layers are correct, and whether the machine is fit to measure on."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from harness.cli.commands import CASES_FAILED, DONE
from harness.errors import UsageError
from harness.sweep_axes import Case

if TYPE_CHECKING:
    from harness.calibration.calibrate import Plan
    from harness.config import SweepConfig

# A loop of short calls, a kernel, and a layer whose page faults take time in some processes but not in others.
_DEFAULTS = ("impl=rnn.torch,attention.fused,attention.packed", "seq_len=256,1024", "d_model=256", "num_heads=8")
# Smaller sizes would tell how long launches take. Flash attention has no float32 on a GPU.
_ON_GPU = (*_DEFAULTS[:1], "seq_len=1024,4096", "d_model=1024", "num_heads=16", "dtype=bfloat16")
_ONE_VALUE = ("device", "threads", "dtype", "env")


# Small, quick and the same for every user; any axis can be overridden. `train` checks gradients too.
_VERIFY_DEFAULTS = ("seq_len=64", "d_model=64", "num_heads=4", "batch_size=2", "mode=train")


def run_verify(options: argparse.Namespace) -> int:
    """Verify every case of a small grid. Returns 3 if a case fails."""
    from harness.config import compose
    from harness.measure.outcome import TrialOutcome
    from harness.measure.session import Session
    from harness.report.text.cautions import verification_lines, verification_summary

    config = compose(options.overrides, options.config_dir, usual=_VERIFY_DEFAULTS)
    found: list[tuple[Case, dict[str, Any]]] = []
    with Session.of(config) as session:
        session.check_devices(config)
        for case in session.cases(config):
            reason = session.indivisible_size(case)
            outcome = TrialOutcome("unsupported", reason) if reason else session.executor.run("verify", case)
            found.append((case, outcome.entries))
    if options.all:
        print(*verification_lines(found), "", sep="\n")
    print(*verification_summary(found), sep="\n")
    if not options.all and any(outcome["status"] == "unsupported" for _, outcome in found):
        print("Use --all to see why a case is unsupported.")
    return DONE if all(outcome["status"] in ("ok", "unsupported") for _, outcome in found) else CASES_FAILED


def run_calibrate(options: argparse.Namespace) -> int:
    """Calibrate the machine, then print and save the results."""
    from harness.calibration import record
    from harness.calibration.calibrate import calibrate
    from harness.measure.expected_time import ExpectedTime
    from harness.measure.progress import Screen
    from harness.measure.session import Session

    config = _config(options.overrides, options.config_dir)
    record.check_calibration_path(options.out)
    console = Console()
    plan = _plan(config, _precision_name(options.overrides))
    calibration = calibrate(
        plan,
        lambda trial_s: Session.of(replace(config, precision=replace(config.precision, trial_s=trial_s))).executor,
        lambda cases: Screen(cases, ExpectedTime(config.precision), console),
        lambda text: console.out(text, highlight=False),
    )
    record.save(calibration, options.out)
    record.show_calibration(calibration, console)
    console.out(f"{options.out}: took {calibration.took_s:.0f} s", highlight=False)
    return DONE


def _config(overrides: Sequence[str], config_dir: Path | None) -> "SweepConfig":
    from harness.config import compose

    on_gpu = any(text.startswith("device=") and text != "device=cpu" for text in overrides)
    config = compose(overrides, config_dir, usual=_ON_GPU if on_gpu else _DEFAULTS)
    for axis in _ONE_VALUE:
        if len(config.axes[axis]) > 1:
            raise UsageError(f"{axis} takes one value here: calibrate each one by itself, with -o FILE")
    return config


def _precision_name(overrides: Sequence[str]) -> str:
    chosen = [text.partition("=")[2] for text in overrides if text.startswith("precision=")]
    name = chosen[-1] if chosen else "quick"
    return f"{name}, changed" if any(text.startswith("precision.") for text in overrides) else name


def _plan(config: "SweepConfig", precision_name: str) -> "Plan":
    from harness.calibration.calibrate import Plan
    from harness.measure.session import Session

    with Session.of(config) as session:
        session.check_devices(config)
        cases = session.cases(config)
        for case in cases:
            if reason := session.indivisible_size(case):
                raise UsageError(f"{case}: {reason}")
    return Plan(cases, session.traits, config.precision, precision_name, config.seed)
