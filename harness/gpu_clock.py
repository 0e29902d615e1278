"""Whether a GPU's clock rate is locked, and how to lock it.

NVML does not tell that `nvidia-smi -lgc` has locked it. A clock rate that stays below the highest one in every trial
shows it.
"""

from collections.abc import Collection, Mapping
from typing import Any

# A locked clock rate is below this share of the highest one, and varies by less than the second share.
_BELOW, _STEADY = 0.97, 0.01
# Under a power cap, most GPUs can hold this share of their highest rate. Rates are multiples of the step.
_HELD_SHARE, _STEP_MHZ = 0.75, 15


def is_locked(state: Mapping[str, Any], rates_mhz: Collection[float]) -> bool:
    """Whether the clock rates of trials, in MHz, are those of a locked clock.

    `state` is what `harness.trial.environment.gpu_state` describes. Without rates, or without the highest one, the
    answer is no.
    """
    highest = state.get("sm_clock_max_mhz")
    if not rates_mhz or not highest:
        return False
    return max(rates_mhz) < _BELOW * highest and max(rates_mhz) <= (1 + _STEADY) * min(rates_mhz)


def lock_advice(state: Mapping[str, Any], rates_mhz: Collection[float] = ()) -> str | None:
    """How to lock the clock rate and what that costs; None if it is locked, or without a state.

    The arguments are as for `is_locked`.
    """
    if not state or is_locked(state, rates_mhz):
        return None
    highest, base = state.get("sm_clock_max_mhz"), _base_mhz(state)
    seen = f" It was {min(rates_mhz):.0f} to {max(rates_mhz):.0f} MHz in the trials." if rates_mhz else ""
    free = "is not locked" if rates_mhz else "is not locked, unless you have done so"
    upper = f" up to {highest} MHz" if highest else ""
    cost, rate = "", "MHZ"
    meant = ", where MHZ is three quarters of the highest rate in 'nvidia-smi -q -d CLOCK'"
    if highest and base:
        cost, rate = f", which makes compute-bound layers up to {100 * (highest / base - 1):.0f} % slower", str(base)
        meant = ""
    return (
        f"The GPU's clock rate {free}: it changes{upper} with power and temperature.{seen} To compare runs within a "
        f"few per cent, lock it near its base rate{cost}: 'sudo nvidia-smi -lgc {rate}'{meant}. "
        "To undo it: 'sudo nvidia-smi -rgc'."
    )


def _base_mhz(state: Mapping[str, Any]) -> int | None:
    """The default application clock, or the present one, if it is below the highest rate; or a share of that."""
    highest = state.get("sm_clock_max_mhz")
    if not highest:
        return None
    known = [state.get(name) for name in ("default_sm_clock_mhz", "application_sm_clock_mhz")]
    lower = [int(rate) for rate in known if rate and rate < highest]
    return lower[0] if lower else int(_HELD_SHARE * highest) // _STEP_MHZ * _STEP_MHZ
