"""How far back a gradient reaches, in words."""

import math

from harness.scaling.decay import FLOOR, Decay, Rate

# A rate matters only if it changes the gradient by at least this factor over all distances.
_MATTERS = 2.0


def sentence(found: Decay) -> str:
    """What each step back keeps of the gradient, and what to know about that rate."""
    if found.rate is None:
        return f"too few distances to tell a rate.{_beyond(found)}"
    halves = "" if found.steady else _halves(found)
    return f"{_trend(found, found.rate)}{halves}{_beyond(found)}"


def _trend(found: Decay, rate: Rate) -> str:
    keeps = f"{rate.value:.3f}{_between(rate)}"
    total = rate.value**found.fitted
    if 1 / _MATTERS < total < _MATTERS:
        return f"no fading over {found.fitted} tokens: each step back keeps {keeps} of it."
    if rate.lo <= 1 <= rate.hi < math.inf:
        return f"each step back keeps {keeps} of it, by seeds too few or too unlike to tell whether it fades."
    if rate.value > 1:
        return f"it grows: each step back makes it {keeps} times as large."
    return f"each step back keeps {keeps} of it; half is gone after {half_distance(found)} tokens."


def _halves(found: Decay) -> str:
    assert found.near is not None
    assert found.far is not None
    middle = found.fitted // 2
    return f" Not at one rate: {found.near.value:.3f} a step up to {middle} tokens, {found.far.value:.3f} beyond."


def _beyond(found: Decay) -> str:
    if found.underflows:
        return f" Beyond {found.fitted} tokens it is below {FLOOR:g}, too small for a float64."
    if found.reach > found.fitted:
        return f" It has gaps: from {found.fitted + 1} tokens back comes nothing, from {found.reach} something."
    if found.ends:
        tokens = f"{found.reach} token{'' if found.reach == 1 else 's'}"
        return f" Nothing from more than {tokens} back has any influence: exactly 0."
    return ""


def _between(rate: Rate) -> str:
    return f" ({rate.lo:.3f} to {rate.hi:.3f})" if rate.hi < math.inf else ""


def interval(found: Decay) -> str:
    """The rate's interval between seeds; `one seed` if there is only one, empty without a rate."""
    if found.rate is None:
        return ""
    return f"{found.rate.lo:.3f} to {found.rate.hi:.3f}" if found.rate.hi < math.inf else "one seed"


def half_distance(found: Decay) -> str:
    """The tokens after which half is left; `∞` from 10 times the fitted distance on, empty without a rate."""
    if found.rate is None:
        return ""
    half = found.rate.half_distance
    return f"{half:.3g}" if half < 10 * found.fitted else "∞"
