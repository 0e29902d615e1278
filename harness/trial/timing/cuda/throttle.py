"""The reasons why a GPU lowers its clock rate, in words.

The bits are `nvmlClocksEventReason…` in NVML's API reference, `nvmlClocksThrottleReason…` before its version 12.2.
"""

# Nothing runs, so the clock rate falls. This does not explain slow work.
_IDLE = 0x1
_REASONS = {
    0x2: "application clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
    0x200: "board limit",
    0x400: "reliability",
}


def in_words(bits: int) -> list[str]:
    """The reasons in `bits`, lowest bit first, without idleness. All unknown bits become one entry, in hexadecimal."""
    named = [word for bit, word in _REASONS.items() if bits & bit]
    unknown = bits & ~(_IDLE | sum(_REASONS))
    return named + ([f"reason {unknown:#x}"] if unknown else [])
