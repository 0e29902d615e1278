"""A timed trial: it takes samples, and records what explains them."""

from dataclasses import asdict
from statistics import median
from time import monotonic
from typing import Any

from harness.case import Case
from harness.trial.build import Workload, build
from harness.trial.compile_failure import CompiledAgain
from harness.trial.renewal import Renewal
from harness.trial.timing.allocator import settle
from harness.trial.timing.clock import Samples, sample
from harness.trial.timing.compiled import at_hand, compilations, compile_s, load
from harness.trial.timing.interference import cpu_mhz, usage
from harness.trial.timing.last_call import check_call_times, check_last_call, last_call
from harness.trial.timing.layout import litter
from harness.trial.timing.pulse import pulse


def take_time(case: Case, seed: int, trial_s: float, check: bool = True) -> dict[str, Any]:
    """Take samples for about `trial_s` seconds. Also time the probe and count the interference.

    With `check`, test afterwards whether the timed calls returned kept results (see `harness.trial.timing.last_call`).
    Raises WrongResult if they did, and CompiledAgain if the layer was compiled again while it was timed.
    """
    began = monotonic()
    held = litter()
    work = build(case, seed)
    may_compile = at_hand()
    renewal = Renewal(work.varying)
    first_call_s = load(work.call, work.sync)
    changes_input = renewal.look()
    if case.allocator == "steady":
        settle(work.call)
    built = monotonic()
    made = compilations() if may_compile else 0
    of_device = _on_gpu if case.device == "cuda" else _on_cpu
    samples, extras = of_device(work, trial_s, renewal, changes_input)
    samples.first_call_s = first_call_s
    last = None
    if check:
        if samples.calls_per_sample > 1:
            check_call_times(work, renewal)
        last = last_call(work, renewal, seed)
    if may_compile and compilations() != made:
        raise CompiledAgain(f"it was compiled again while it was timed, {compilations() - made} times")
    del held, work, renewal
    checked = {} if last is None else {"last_call_checked": check_last_call(last, case, seed)}
    warm_s = median(samples.samples_s)
    return {
        **{name: _rounded(value) for name, value in asdict(samples).items() if name != "during"},
        **samples.during,
        **extras,
        **checked,
        "build_s": _rounded(built - began),
        "compile_s": _rounded(compile_s(samples.first_call_s, warm_s)),
    }


def _on_cpu(work: Workload, trial_s: float, renewal: Renewal, singly: bool) -> tuple[Samples, dict[str, Any]]:
    before_s = pulse()
    samples = sample(work.call, work.sync, trial_s, renew=renewal, singly=singly)
    # Take the quieter of the two: the fastest samples come from that end of the trial.
    return samples, {"pulse_s": min(before_s, pulse()), "cpu_mhz": cpu_mhz()}


def _on_gpu(work: Workload, trial_s: float, renewal: Renewal, singly: bool) -> tuple[Samples, dict[str, Any]]:
    from harness.trial.timing.cuda.sample import sample_cuda  # imported here, because only a GPU needs it and NVML
    from harness.trial.timing.cuda.torch_device import TorchDevice

    device = TorchDevice()
    before = usage()
    samples, extras = sample_cuda(work.call, trial_s, device, renew=renewal)  # on a GPU each sample is one call anyway
    # Unlike on the CPU, this includes warm-up. It shows what the host did beside the GPU.
    samples.during = usage().since(before)
    return samples, {"pulse_s": None, "cpu_mhz": cpu_mhz(), **extras}


def _rounded(value: Any) -> Any:
    """Round to six significant digits, since a clock has no more."""
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
