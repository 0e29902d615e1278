"""Plain advice from a calibration's numbers: what was seen, why it matters, and what to do.

Each piece of advice has a level: `note` (worth knowing), `care` (the machine is usable with care) or `unfit`. The
verdict is the worst level.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.calibration.measured import Calibration

LEVELS = ("note", "care", "unfit")
VERDICTS = {"note": "fit", "care": "usable with care", "unfit": "not fit"}


@dataclass(frozen=True)
class Limit:
    """A number above `care` calls for care. Above `unfit`, the machine should not be measured on."""

    care: float
    unfit: float

    def level(self, value: float) -> str | None:
        return "unfit" if value > self.unfit else "care" if value > self.care else None


# A change of 5 % is worth knowing about. Noise that hides a change of 25 % also hides the difference between most
# layers.
NOISE = Limit(0.05, 0.25)
# Steal comes in slices: an average of 1 % leaves most trials alone and affects some of them a lot.
STEAL = Limit(0.01, 0.10)
# An idle system takes 1 to 2 % of its CPUs. With a quarter gone, some trials share a core throughout.
OTHERS = Limit(0.05, 0.25)
# Rounds and repeats cope with bursts that disturb up to one trial in five. If half of the trials are disturbed, no
# quiet time is left to wait for.
DISTURBED = Limit(0.20, 0.50)
# Reading the processor's own counter takes about 50 ns. A reading takes longer only if it needs a call to the kernel.
SLOW_CLOCK_S = 0.5e-6
SWAPPED_BYTES = 2**20
# With these governors the kernel sets the clock frequency by the load of the previous moment.
_CHANGING_GOVERNORS = {"powersave", "ondemand", "conservative", "schedutil"}
_NEXT_PRECISION = {"quick": "standard", "standard": "strict"}
# How to turn turbo off. Intel's drivers have a switch for it; other drivers, such as AMD's, call it boost.
_NO_TURBO = {
    "intel_pstate": "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo",
    "intel_cpufreq": "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo",
}
_NO_BOOST = "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"


_UNSEEN = ", none of them to be seen from here: short-lived, or outside this container"


@dataclass(frozen=True)
class Advice:
    """One or two sentences, and their level."""

    level: str
    text: str


def percent(share: float) -> str:
    """`0.0321` → `3.2 %`, `0.321` → `32 %`."""
    return f"{100 * share:.0f} %" if share >= 0.995 else f"{100 * share:.2g} %"


def advise(c: Calibration) -> list[Advice]:
    """All advice, the most serious first; empty if nothing needs to change."""
    everything = [*_noise(c), *_others(c), *_threads(c), *_frequency(c), *_rest(c)]
    return sorted(everything, key=lambda advice: -LEVELS.index(advice.level))


def verdict(advice: list[Advice]) -> str:
    """`fit`, `usable with care` or `not fit`."""
    return VERDICTS[max((a.level for a in advice), key=LEVELS.index, default="note")]


def _noise(c: Calibration) -> Iterator[Advice]:
    level = NOISE.level(c.noise_floor)
    if level:
        next_precision = _NEXT_PRECISION.get(c.precision)
        better = f"Try precision={next_precision}." if next_precision else "Measure on a quieter machine."
        yield Advice(
            level,
            f"The noise floor is {percent(c.noise_floor)}: two measurements of the same thing lie so far apart once in "
            f"twenty times, so smaller slow-downs cannot be told from noise with precision={c.precision}. {better}",
        )
    slow = c.disturbed_share
    if slow is not None and (level := DISTURBED.level(slow)):
        yield Advice(
            level,
            f"The machine was slow during {percent(slow)} of the trials, by a fixed piece of work timed beside "
            "each: it has two speeds, and a case measured at the lower one looks slow. Measure when it is quieter, or "
            "with precision=standard or strict, which wait for quiet moments.",
        )


def _others(c: Calibration) -> Iterator[Advice]:
    steal = c.load.steal_share
    if steal is not None and (level := STEAL.level(steal)):
        yield Advice(
            level,
            f"The host took {percent(steal)} of the CPU time away (steal): other virtual machines share these cores. "
            "Compare layers within one run only, use precision=standard, or move to a dedicated machine.",
        )
    level = OTHERS.level(c.load.other_share)
    if level:
        named = ", ".join(
            f"{busy.name} (pid {busy.pid}, with its children {percent(busy.cores)} of a core)"
            for busy in c.load.busiest
        )
        yield Advice(
            level,
            f"Other processes took {percent(c.load.other_share)} of the CPU time while we measured"
            f"{': ' + named if named else _UNSEEN}. "
            "They slow trials at random: end them, or measure when they have ended.",
        )
    if c.load.swapped_bytes > SWAPPED_BYTES:
        yield Advice(
            "care",
            f"{c.load.swapped_bytes / 2**20:.0f} MiB were swapped in or out while we measured: memory is short, and a "
            "layer that touches swapped pages waits for the disk. Free memory, or turn swap off: sudo swapoff -a.",
        )


def _threads(c: Calibration) -> Iterator[Advice]:
    s, threads = c.state, f"threads={c.threads}"
    if s.cpu_quota is not None and c.threads > s.cpu_quota:
        fewer = max(1, int(s.cpu_quota))
        yield Advice(
            "unfit",
            f"{threads}, but this control group (container) is granted {s.cpu_quota:g} CPUs' worth of time: once that "
            f"is used up, the kernel stops every thread for the rest of each period. Use threads={fewer}"
            f"{'' if fewer <= s.cpu_quota else ' and a larger quota'}, or raise the quota.",
        )
    if c.threads > s.usable_cpus:
        yield Advice(
            "unfit",
            f"{threads}, but this process may run on {s.usable_cpus} CPUs only: threads take turns and wait for each "
            f"other. Use threads={s.usable_cpus} at most.",
        )
    elif s.usable_cores is not None and c.threads > s.usable_cores:
        yield Advice(
            "care",
            f"{threads} on {s.usable_cores} physical cores: hyper-threads share a core's arithmetic, and times depend "
            f"on which ones meet. Use threads={s.usable_cores}.",
        )


def _frequency(c: Calibration) -> Iterator[Advice]:
    s = c.state
    changing = sorted(_CHANGING_GOVERNORS.intersection(s.governors or ()))
    if changing:
        yield Advice(
            "care",
            f"The frequency governor is {', '.join(changing)}: the clock follows the load, and short trials are timed "
            "while it climbs. Set it: sudo cpupower frequency-set -g performance.",
        )
    if s.turbo:
        yield Advice(
            "note",
            "Turbo is on: the clock falls as the chip warms up and as more cores work. To compare runs within a few "
            f"per cent, turn it off: {_NO_TURBO.get(s.scaling_driver or '', _NO_BOOST)}.",
        )
    if s.on_battery:
        yield Advice("care", "The machine runs on its battery, and saves power as it sees fit. Plug it in.")


def _rest(c: Calibration) -> Iterator[Advice]:
    if c.clock_s > SLOW_CLOCK_S:
        source = f", from {c.state.clocksource}" if c.state.clocksource else ""
        yield Advice(
            "note",
            f"Reading the clock takes {c.clock_s * 1e9:.0f} ns{source}: samples are made longer to hide it, and a "
            "trial of short calls has fewer of them. Where the kernel offers tsc (available_clocksource), choose it.",
        )
    if c.state.huge_pages == "always":
        yield Advice(
            "note",
            "Transparent huge pages are set to always: whether large blocks get them depends on what ran before. For "
            "steadier page faults: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled.",
        )
    cache, buffer = c.bandwidth.get("cache_bytes"), c.bandwidth.get("buffer_bytes")
    if cache and buffer and buffer < 2 * cache:
        yield Advice(
            "note",
            "The arrays of the bandwidth measurement were less than twice the last-level cache, for want of memory: "
            "part of the bandwidth is the cache's. Free memory, or raise memory_limit.",
        )
    for failure in c.failures:
        yield Advice("care", f"Not measured: {failure}.")
