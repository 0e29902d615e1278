"""A calibration on the terminal, with advice, and on disk: the file `calibration.json`, attached to later runs."""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import formatting
from harness.calibration.calibrate import Calibration, NoiseFloor
from harness.calibration.machine_state import BackgroundLoad, Busy, MachineState
from harness.case import Case
from harness.errors import UsageError
from harness.files import read_text, write_atomically

# `note`: worth knowing. `care`: the machine is usable with care. `unfit`: it should not be measured on.
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
    """What was seen, why it matters and what to do, in one or two sentences, with a level from `LEVELS`."""

    level: str
    text: str


def percent(share: float) -> str:
    """`0.0321` → `3.2 %`, `0.321` → `32 %`."""
    return f"{100 * share:.0f} %" if share >= 0.995 else f"{100 * share:.2g} %"


def advice_for(c: Calibration) -> list[Advice]:
    """All advice, the most serious first; empty if nothing needs to change."""
    everything = [*_noise(c), *_others(c), *_threads(c), *_frequency(c), *_rest(c)]
    return sorted(everything, key=lambda advice: -LEVELS.index(advice.level))


def verdict(advice: list[Advice]) -> str:
    """`fit`, `usable with care` or `not fit`: the worst level of the advice."""
    return VERDICTS[max((a.level for a in advice), key=LEVELS.index, default="note")]


def _noise(c: Calibration) -> Iterator[Advice]:
    level = NOISE.level(c.noise_floor)
    if level:
        next_precision = _NEXT_PRECISION.get(c.precision)
        better = f"Try precision={next_precision}." if next_precision else "Measure on a quieter machine."
        yield Advice(
            level,
            f"The noise floor is {percent(c.noise_floor)}: two measurements of the same thing lie so far apart once in "
            f"twenty times. Smaller slow-downs are indistinguishable from noise with precision={c.precision}. {better}",
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


_NOT_READABLE = "not readable here"
_COLOURS = {"fit": "green", "usable with care": "yellow", "not fit": "red"}


def show_calibration(c: Calibration, console: Console) -> None:
    """Print what was measured and read, the verdict, and the advice."""
    table = Table(
        title=f"{c.host}, {c.cpu_model if c.device == 'cpu' else c.gpu}, threads={c.threads}, torch {c.torch_version}",
        title_justify="left",
        show_header=False,
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for section in (_noise_text(c), _peak_rows(c), _machine_rows(c)):
        for name, value in section:
            table.add_row(Text(name), Text(value))
        table.add_section()
    console.print(table)
    advice = advice_for(c)
    word = verdict(advice)
    what = {"fit": "Fit to measure on.", "usable with care": "Usable with care.", "not fit": "Not fit to measure on."}
    console.print(Text(what[word], style=_COLOURS[word]))
    limits = {"noise floor": NOISE, "steal": STEAL, "other load": OTHERS, "disturbed trials": DISTURBED}
    told = ", ".join(f"{name} {percent(limit.care)} / {percent(limit.unfit)}" for name, limit in limits.items())
    console.print(Text(f"(care / not fit above: {told}; see also the advice below)", style="dim"))
    for one in advice:
        console.print(Text(f"- {one.level}: {one.text}"))


def _noise_text(c: Calibration) -> Iterator[tuple[str, str]]:
    between = (
        f" ({percent(c.noise.lo)} to {percent(c.noise.hi)})"
        if c.noise.lo is not None and c.noise.hi is not None
        else ""
    )
    yield (
        f"noise floor, precision={c.precision}",
        f"{percent(c.noise.floor)}{between}: {c.noise.ratios} pairs of equals",
    )
    yield "… a slow-down seen 4 times in 5", f"from {percent(c.noise.visible)} on"
    if c.noise_between_repeats is not None:
        yield "… between repeats, a while apart", f"{percent(c.noise_between_repeats)}"
    if c.noise_by_case:
        key, most = max(c.noise_by_case.items(), key=lambda item: item[1])
        yield "… the least steady case", f"{_short(key)}: {percent(most)} apart at most"
    if c.disturbed_share is not None:
        yield "trials while the machine was slow", f"{percent(c.disturbed_share)}"
    source = c.state.clocksource or f"clock source {_NOT_READABLE}"
    yield "a reading of the clock", f"{formatting.seconds(c.clock_s)} ({source})"


def _short(key: str) -> str:
    fields = dict(pair.split("=", 1) for pair in key.split())
    return str(Case(fields["impl"], int(fields["seq_len"]), int(fields["d_model"]), int(fields["num_heads"])))


def _peak_rows(c: Calibration) -> Iterator[tuple[str, str]]:
    for dtype, flops in c.peak_flops_per_s.items():
        yield f"peak, {dtype}", f"{_three_digits(flops / 1e9)} GFLOP/s (product of {c.peak_sizes[dtype]}²)"
    if c.bandwidth:
        b = c.bandwidth
        yield (
            "memory bandwidth, read + write",
            f"copy {_three_digits(b['copy_bytes_per_s'] / 1e9)} GB/s, "
            f"triad {_three_digits(b['triad_bytes_per_s'] / 1e9)} GB/s "
            f"(arrays of {formatting.size(b['buffer_bytes'])})",
        )


def _machine_rows(c: Calibration) -> Iterator[tuple[str, str]]:
    s = c.state
    driver = f" ({s.scaling_driver})" if s.scaling_driver else ""
    yield "governor", ", ".join(s.governors) + driver if s.governors else _NOT_READABLE
    yield "turbo", _yes(s.turbo, "on", "off")
    cores = f"{s.usable_cores} cores" if s.usable_cores is not None else f"cores {_NOT_READABLE}"
    yield "CPUs for this process", f"{s.usable_cpus} ({cores}); hyper-threading {_yes(s.smt, 'on', 'off')}"
    quota = "none" if "cpu_quota" not in s.unreadable else _NOT_READABLE
    yield "quota of CPU time", f"{s.cpu_quota:g} CPUs" if s.cpu_quota is not None else quota
    yield "virtual machine", _yes(s.virtual, "yes", "no")
    yield "stolen by the host", f"{percent(c.load.steal_share)}" if c.load.steal_share is not None else _NOT_READABLE
    named = ", ".join(f"{busy.name} {percent(busy.cores)} of a core" for busy in c.load.busiest)
    yield "other processes", f"{percent(c.load.other_share)} of all CPUs" + (f" ({named})" if named else "")
    yield "swap", f"{formatting.size(s.swap_used_bytes)} used, {formatting.size(c.load.swapped_bytes)} moved meanwhile"
    yield "transparent huge pages", s.huge_pages or _NOT_READABLE
    yield "on battery", _yes(s.on_battery, "yes", "no")


def _yes(value: bool | None, yes: str, no: str) -> str:
    return _NOT_READABLE if value is None else yes if value else no


def _three_digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


SCHEMA = 1
PATH = Path("results") / "calibration.json"


def as_dict(calibration: Calibration) -> dict[str, Any]:
    """The content of the file, which is for people and for later commands. Names contain units.

    The fields that commands read are at the top: `noise_floor` (a share), `clock_s`, `peak_flops_per_s` (by dtype) and
    `bandwidth_bytes_per_s`.
    """
    advice = advice_for(calibration)
    return {
        "schema": SCHEMA,
        "kind": "calibration",
        "verdict": verdict(advice),
        "advice": [asdict(one) for one in advice],
        "noise_floor": calibration.noise_floor,
        "bandwidth_bytes_per_s": calibration.bandwidth_bytes_per_s,
        **asdict(calibration),
    }


def from_dict(data: Mapping[str, Any]) -> Calibration:
    """The calibration that `as_dict` wrote. Raises KeyError or TypeError for other content."""
    plain = {field.name: data[field.name] for field in fields(Calibration)}
    load, state = dict(plain["load"]), dict(plain["state"])
    load["busiest"] = tuple(Busy(**busy) for busy in load["busiest"])
    state["unreadable"] = tuple(state["unreadable"])
    state["governors"] = tuple(state["governors"]) if state["governors"] is not None else None
    plain |= {"noise": NoiseFloor(**plain["noise"]), "load": BackgroundLoad(**load), "state": MachineState(**state)}
    return Calibration(**{**plain, "failures": tuple(plain["failures"])})


def check_calibration_path(path: Path) -> None:
    """Raise UsageError unless a calibration can be saved at `path`. Nothing is written.

    An existing file is replaced only if it is a calibration.
    """
    if path.is_dir():
        raise UsageError(f"--out {path} is a directory: name a file, such as {path / 'calibration.json'}")
    try:
        if path.exists() and _problem(path) is not None:
            raise UsageError(f"--out {path}: there is another file of that name; name a new one")
        nearest = next(parent for parent in path.absolute().parents if parent.exists())
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from error
    if not nearest.is_dir():
        raise UsageError(f"--out {path}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"--out {path}: {nearest} cannot be written to")


def save(calibration: Calibration, path: Path) -> None:
    """Write the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(as_dict(calibration), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def load_calibration(path: Path) -> Calibration:
    """Read the file. Raises UsageError if it is absent or not a calibration."""
    data, problem = _read(path)
    if problem is not None:
        raise UsageError(f"{path}: {problem}")
    return from_dict(data)


def attachment(
    path: Path, machine: Mapping[str, Any], threads: Collection[int], devices: Collection[str]
) -> dict[str, Any]:
    """The entries of a run's `machine.json`: `calibration`, or the reason why it is missing in `calibration_note`.

    A calibration counts only if it was made on this host, processor, GPU and torch. Its device and its number of
    threads must also occur in the run. `machine` is what `describe_machine` returns.
    """
    if not path.exists():
        return _no_calibration("there is none: python -m harness calibrate makes one")
    data, problem = _read(path)
    if problem is not None:
        return _no_calibration(f"{path}: {problem}")
    made = from_dict(data)
    here: dict[str, tuple[str | None, str | None]] = {
        "host": (made.host, machine["host"]),
        "processor": (made.cpu_model, machine["cpu"]["model"]),
        "torch": (made.torch_version, machine["torch"]["version"]),
    }
    if made.device == "cuda":
        here["GPU"] = (made.gpu, machine["torch"]["gpu"])
    for what, (then, now) in here.items():
        if then != now:
            return _no_calibration(f"{path} is of another {what}: {then}, here {now}")
    if made.device not in devices:
        return _no_calibration(f"{path} is for device={made.device}")
    if made.threads not in threads:
        return _no_calibration(f"{path} is for threads={made.threads}")
    return {"calibration": data, "calibration_note": None}


def _no_calibration(why: str) -> dict[str, Any]:
    return {"calibration": None, "calibration_note": why}


def _problem(path: Path) -> str | None:
    return _read(path)[1]


def _read(path: Path) -> tuple[dict[str, Any], str | None]:
    """`(the file's content, None)`, or `({}, the problem)`."""
    try:
        data = json.loads(read_text(path))
    except OSError as error:
        return {}, error.strerror or "cannot be read"
    except (ValueError, RecursionError):
        return {}, "not a calibration: it is not JSON"
    if not isinstance(data, dict) or data.get("kind") != "calibration":
        return {}, "not a calibration"
    if data.get("schema") != SCHEMA:
        return {}, f"a calibration of schema {data.get('schema')}, not {SCHEMA}: make it anew"
    try:
        from_dict(data)
    except (KeyError, TypeError, ValueError) as error:
        return {}, f"a calibration that lacks something ({error}): make it anew"
    return data, None
