"""`python -m harness calibrate`."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from harness.calibration import record
from harness.calibration.calibrate import Plan, calibrate
from harness.calibration.record import show_calibration
from harness.case import grid
from harness.cli import DONE
from harness.cli.options import Parser
from harness.config import SweepConfig, compose
from harness.errors import UsageError
from harness.measure.executor import Executor
from harness.measure.progress import Screen
from harness.measure.session import check_devices, describe_impl
from harness.registry import unsupported_reason

# A loop of short calls, a kernel, and a layer whose page faults take time in some processes but not in others.
_DEFAULTS = (
    "impl=rnn.torch,attention.fused,attention.packed",
    "seq_len=256,1024",
    "d_model=256",
    "num_heads=8",
)
_ONE_VALUE = ("device", "threads", "dtype")

_EPILOG = """\
The command measures the noise floor: how far repeated measurements of the same cases lie apart. No smaller slow-down
can be distinguished from noise at this precision. It also measures FLOP/s by dtype, memory bandwidth, and the cost of
reading the clock. It reads governor, turbo, hyper-threads, quotas, steal and other load. Then it prints plain advice.

The result is saved to results/calibration.json. Every later sweep on this machine copies it into its machine.json.

examples:
  python -m harness calibrate
  python -m harness calibrate precision=standard threads=1
  python -m harness calibrate impl=my.module:MyLayer seq_len=512      the noise of a case of your own

exit status: 0 done, whatever the verdict; 2 usage error; 130 interrupted
"""


def run_calibrate(arguments: Sequence[str]) -> int:
    """Calibrate the machine, then print and save the results."""
    options = _parser().parse_intermixed_args(arguments)
    config = _config(options.overrides, options.config_dir)
    record.check_calibration_path(options.out)
    console = Console()
    plan = _plan(config, _precision_name(options.overrides))
    calibration = calibrate(
        plan,
        lambda trial_s: _runner(config, trial_s),
        lambda cases: Screen(cases, config.precision, console),
        lambda text: console.out(text, highlight=False),
    )
    record.save(calibration, options.out)
    show_calibration(calibration, console)
    console.out(f"{options.out}: took {calibration.took_s:.0f} s", highlight=False)
    return DONE


def _parser() -> Parser:
    parser = Parser(
        "calibrate", "Report whether this machine is fit to measure on: its noise, peaks and settings.", _EPILOG
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as in sweep: precision=… threads=… device=…")
    parser.add_argument(
        "--out",
        type=Path,
        default=record.PATH,
        metavar="FILE",
        help=f"where to save the result; default: {record.PATH}",
    )
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own settings, beside conf/")
    return parser


def _config(overrides: Sequence[str], config_dir: Path | None) -> SweepConfig:
    on_gpu = ("dtype=bfloat16",) if "device=cuda" in overrides else ()  # flash attention has no float32 on a GPU
    config = compose(overrides, config_dir, usual=[*_DEFAULTS, *on_gpu])
    if config.out is not None:
        raise UsageError(
            f"out={config.out} names the directory of a sweep; name the file of a calibration with --out FILE"
        )
    for axis in _ONE_VALUE:
        if len(config.axes[axis]) > 1:
            raise UsageError(f"{axis} takes one value here, not several: calibrate once for each, with --out FILE")
    return config


def _precision_name(overrides: Sequence[str]) -> str:
    chosen = [text.partition("=")[2] for text in overrides if text.startswith("precision=")]
    name = chosen[-1] if chosen else "quick"
    return f"{name}, changed" if any(text.startswith("precision.") for text in overrides) else name


def _plan(config: SweepConfig, precision_name: str) -> Plan:
    with _runner(config, config.precision.trial_s) as runner:
        check_devices(config, runner)
        traits = {impl: describe_impl(impl, runner) for impl in config.axes["impl"]}
    cases = list(grid(config.axes, lambda impl: traits[impl].has_heads))
    for case in cases:
        reason = unsupported_reason(case, traits[case.impl].has_heads)
        if reason:
            raise UsageError(f"{case}: {reason}")
    return Plan(cases, traits, config.precision, precision_name, config.seed)


def _runner(config: SweepConfig, trial_s: float) -> Executor:
    return Executor(
        seed=config.seed, trial_s=trial_s, timeout_s=config.precision.timeout_s, memory_limit=config.memory_limit
    )
