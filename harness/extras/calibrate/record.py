"""A calibration on the terminal, with advice, and on disk: the file `calibration.json`, attached to later runs."""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.core.config.machine import GpuState, Machine, gpu_state_of, gpu_states, lock_advice, unlike_gpus, with_gpus
from harness.core.model import file_io, formatting
from harness.core.model.errors import UsageError, usage_error_about
from harness.core.model.formatting import NamedTexts, share
from harness.core.model.sweep_axes import Case
from harness.core.results.run_directory import check_writable
from harness.study.check.baseline import parse_case

from .measure import Calibration

# `note`: worth knowing. `care`: the machine is usable with care. `unfit`: it should not be measured on.
VERDICTS = {"note": "fit", "care": "usable with care", "unfit": "not fit"}
LEVELS = tuple(VERDICTS)
_COLORS = {"fit": "green", "usable with care": "yellow", "not fit": "red"}


@dataclass(frozen=True)
class Limit:
    """A number above `care` calls for care. Above `unfit`, the machine should not be measured on."""

    care: float
    unfit: float

    def level(self, value: float) -> str | None:
        return "unfit" if value > self.unfit else "care" if value > self.care else None


LIMITS = {
    # A change of 5 % is worth knowing about. Noise that hides a change of 25 % also hides the difference between most
    # layers.
    "noise floor": Limit(0.05, 0.25),
    # Steal comes in slices: an average of 1 % leaves most trials alone and affects some of them a lot.
    "steal": Limit(0.01, 0.10),
    # An idle system takes 1 to 2 % of its CPUs. With a quarter gone, some trials share a core throughout.
    "other load": Limit(0.05, 0.25),
    # Rounds and repeats cope with bursts that disturb up to one trial in five. If half of the trials are disturbed, no
    # quiet time is left to wait for.
    "disturbed trials": Limit(0.20, 0.50),
}
_CHANGING_GOVERNORS = {"powersave", "ondemand", "conservative", "schedutil"}
_NEXT_PRECISION = {"quick": "standard", "standard": "strict"}


class Advice(NamedTuple):
    """What was seen, why it matters and what to do, in one or two sentences, with a level from `LEVELS`."""

    level: str
    text: str


def advice_for(c: Calibration) -> list[Advice]:
    """All advice, the most serious first; empty if nothing needs to change."""
    values = {
        "c": c,
        "s": c.state,
        "floor": c.noise.floor if c.noise else 0.0,
        "better": _NEXT_PRECISION.get(c.precision),
        "cache": c.bandwidth.get("cache_bytes"),
        "buffer": c.bandwidth.get("buffer_bytes"),
        "quota": c.state.cpu_quota or 0.0,
        "changing": sorted(_CHANGING_GOVERNORS.intersection(c.state.governors or ())),
    }
    advice = [
        *_applicable("measurements", values),
        *(Advice("care", f"Not measured: {failure}.") for failure in c.failures),
        *_applicable("settings", values),
        *gpu_advice(c.gpu_state or {}, c.sm_clock_mhz or ()),
    ]
    return sorted(advice, key=lambda rule: -LEVELS.index(rule.level))


def _applicable(section: str, values: dict[str, Any]) -> Iterator[Advice]:
    """The advice of the rules in a section of `advice.yaml` that have a level."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined)
    environment.globals |= {"share": share, "noise_text": noise_text, "LIMITS": LIMITS}
    rules = yaml.safe_load(Path(__file__).with_name("advice.yaml").read_text(encoding="utf-8"))
    for rule in rules[section]:
        if level := environment.compile_expression(rule["level"])(values):
            yield Advice(level, environment.from_string(rule["text"]).render(values))


def verdict(advice: list[Advice]) -> str:
    """`fit`, `usable with care` or `not fit`, by the first of all advice, which is the most serious."""
    return VERDICTS[advice[0].level if advice else "note"]


def noise_text(c: Calibration) -> str:
    """The noise floor and what it holds for, or the command that measures it."""
    if c.noise is None:
        command = f"python -m harness calibrate device={c.device} threads={c.threads}"
        return f"noise floor: not measured ('{command}' measures it)"
    floor = share(c.noise.floor)
    return f"noise floor {floor} at precision={c.precision} with threads={c.threads} on {c.device}"


def gpu_advice(state: GpuState, rates_mhz: Collection[float] = ()) -> Iterator[Advice]:
    """Advice about a GPU in this state, as `harness.core.trial.nvml.gpu_state` describes it.

    `rates_mhz` are clock rates that trials have seen.
    """
    return _applicable("gpu", {"state": state, "lock": lock_advice(state, rates_mhz)})


_NOT_READABLE = "not readable here"


def show_calibration(c: Calibration, console: Console) -> None:
    """Print what was measured and read, the verdict, and the advice."""
    title = f"{c.host}, {c.cpu_model if c.device == 'cpu' else c.gpu}, threads={c.threads}, torch {c.torch_version}"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for section in (_noise_rows(c), _peak_rows(c), _machine_rows(c)):
        for name, value in section:
            table.add_row(Text(name), Text(value))
        table.add_section()
    console.print(table)
    advice = advice_for(c)
    judged = verdict(advice)
    console.print(Text(f"{judged.capitalize()}{' to measure on' if 'fit' in judged else ''}.", _COLORS[judged]))
    shown = ", ".join(f"{name} {share(limit.care)} / {share(limit.unfit)}" for name, limit in LIMITS.items())
    console.print(Text(f"(care / not fit above: {shown}; see also the advice below)", style="dim"))
    for line in advice:
        console.print(Text(f"- {line.level}: {line.text}"))


def _noise_rows(c: Calibration) -> NamedTexts:
    noise = c.noise
    if noise is None:
        yield "noise floor", "not measured"
        return
    ends = [share(end) for end in (noise.lo, noise.hi) if end is not None]
    interval = f" ({' to '.join(ends)})" if ends else ""
    yield f"noise floor, precision={c.precision}", f"{share(noise.floor)}{interval}: {noise.ratios} pairs of equals"
    yield "… a slow-down seen 4 times in 5", f"from {share(noise.visible)} on"
    if c.noise_between_repeats is not None:
        yield "… between repeats, a while apart", share(c.noise_between_repeats)
    if c.noise_by_case:
        key, most = max(c.noise_by_case.items(), key=lambda item: item[1])
        case = parse_case(key)
        sizes = Case(case.impl, case.seq_len, case.d_model, case.num_heads)
        yield "… the least steady case", f"{sizes}: {share(most)} apart at most"
    if c.disturbed_share is not None:
        yield "trials while the machine was slow", share(c.disturbed_share)
    source = c.state.clocksource or f"clock source {_NOT_READABLE}"
    yield "a reading of the clock", f"{formatting.seconds(c.clock_s or 0.0)} ({source})"


def _peak_rows(c: Calibration) -> NamedTexts:
    for dtype, flops in c.peak_flops_per_s.items():
        sustained = c.sustained_flops_per_s.get(dtype)
        more = f", {formatting.flops_rate(sustained)} sustained" if sustained else ""
        yield f"peak, {dtype}", f"{formatting.flops_rate(flops)}{more} (product of {c.peak_sizes[dtype]}²)"
    if b := c.bandwidth:
        per_s = {name: b.get(f"{name}_bytes_per_s") for name in ("copy", "triad", "sum", "sustained")}
        rates = ", ".join(f"{name} {formatting.three(rate / 1e9)} GB/s" for name, rate in per_s.items() if rate)
        yield "memory bandwidth, read + write", f"{rates} (arrays of {formatting.size(b['buffer_bytes'])})"


def _machine_rows(c: Calibration) -> NamedTexts:
    s = c.state
    driver = f" ({s.scaling_driver})" if s.scaling_driver else ""
    yield "governor", ", ".join(s.governors) + driver if s.governors else _NOT_READABLE
    yield "turbo", _yes(s.turbo, "on", "off")
    cores = f"cores {_NOT_READABLE}" if s.usable_cores is None else f"{s.usable_cores} cores"
    yield "CPUs for this process", f"{s.usable_cpus} ({cores}); hyper-threading {_yes(s.smt, 'on', 'off')}"
    quota = "none" if "cpu_quota" not in s.unreadable else _NOT_READABLE
    yield "quota of CPU time", f"{s.cpu_quota:g} CPUs" if s.cpu_quota is not None else quota
    yield "virtual machine", _yes(s.virtual, "yes", "no")
    yield "stolen by the host", share(c.load.steal_share) if c.load.steal_share is not None else _NOT_READABLE
    named = ", ".join(f"{busy.name} {share(busy.cores)} of a core" for busy in c.load.busiest)
    yield "other processes", f"{share(c.load.other_share)} of all CPUs" + (f" ({named})" if named else "")
    yield "swap", f"{formatting.size(s.swap_used_bytes)} used, {formatting.size(c.load.swapped_bytes)} moved meanwhile"
    yield "transparent huge pages", s.huge_pages or _NOT_READABLE
    yield "on battery", _yes(s.on_battery, "yes", "no")


def _yes(value: bool | None, yes: str, no: str) -> str:
    return _NOT_READABLE if value is None else yes if value else no


SCHEMA = 1
PATH = Path("results") / "calibration.json"


def as_dict(calibration: Calibration) -> dict[str, Any]:
    """The content of the file, which is for people and for later commands. Names contain units.

    The fields that commands read are at the top: `noise_floor` (a share, null if not measured), `peak_flops_per_s` (by
    dtype) and `bandwidth_bytes_per_s`.
    """
    advice = advice_for(calibration)
    return {
        "schema": SCHEMA,
        "kind": "calibration",
        "verdict": verdict(advice),
        "advice": [line._asdict() for line in advice],
        "noise_floor": calibration.noise and calibration.noise.floor,
        "bandwidth_bytes_per_s": calibration.bandwidth.get("bandwidth_bytes_per_s"),
        **asdict(calibration),
    }


def check_calibration_path(path: Path) -> None:
    """Raise UsageError unless a calibration can be saved at `path`. Nothing is written.

    An existing file is replaced only if it is a calibration.
    """
    if path.is_dir():
        raise UsageError(f"out={path} is a directory: name a file, such as {path / 'calibration.json'}")
    check_writable(path.absolute().parent, f"out={path}")
    if path.exists():
        try:
            load_calibration(path)
        except UsageError as error:
            raise UsageError(f"out={path}: there is another file of that name; name a new one") from error


def save(calibration: Calibration, path: Path) -> None:
    """Write the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file_io.write_json(path, as_dict(calibration))


def save_peaks(peaks: Calibration, path: Path) -> str:
    """Save a calibration without a noise floor, and say what the file holds now.

    A complete calibration of this machine stays until the new one is complete, so that an interrupt loses nothing.
    """
    if path.exists():
        _, before = load_calibration(path)
        if before.noise and (before.host, before.cpu_model) == (peaks.host, peaks.cpu_model):
            return f"{path} keeps the complete calibration of {before.date}"
    save(peaks, path)
    return f"the peaks are saved in {path}"


def attachment(
    machine: Machine, threads: Collection[int], devices: Collection[str], path: Path = PATH
) -> dict[str, Any]:
    """The entries of a run's `machine.json`: `calibration`, or the reason why it is missing in `calibration_note`.

    A calibration counts only if it was made on this host, processor, GPU and torch. Its device and its number of
    threads must also occur in the run. `machine` is what `describe_machine` returns.
    """
    try:
        data, made = _of_machine(machine, path)
        if made.device not in devices:
            raise UsageError(f"{path} is for device={made.device}")
        if made.threads not in threads:
            raise UsageError(f"{path} is for threads={made.threads}")
    except UsageError as reason:
        return {"calibration": None, "calibration_note": str(reason)}
    return {"calibration": data, "calibration_note": None}


def _of_machine(machine: Machine, path: Path) -> tuple[dict[str, Any], Calibration]:
    """The calibration of this machine. Raises UsageError, with the reason, if the file has none."""
    if not path.exists():
        raise UsageError("there is none: python -m harness calibrate makes one")
    data, made = load_calibration(path)
    state = gpu_state_of(machine, made.device) or {}
    gpu = made.gpu if made.device == "cpu" else state.get("name", machine["torch"]["gpu"])
    for what, then, now in (
        ("host", made.host, machine["host"]),
        ("processor", made.cpu_model, machine["cpu"]["model"]),
        ("torch", made.torch_version, machine["torch"]["version"]),
        ("GPU", made.gpu, gpu),
    ):
        if then != now:
            raise UsageError(f"{path} is of another {what}: {then}, here {now}")
    if differing := unlike_gpus(*(with_gpus({}, {"": gpu_state or {}}) for gpu_state in (made.gpu_state, state))):
        raise UsageError(f"{path} is of a GPU in another state: {'; '.join(differing)}")
    return data, made


def load_calibration(path: Path) -> tuple[dict[str, Any], Calibration]:
    """The file's content, as it is and as a calibration. Raises UsageError if it is not one."""
    from harness.core.model.file_validation import Damaged, checked

    try:
        with usage_error_about(path):
            data = file_io.read_json(path)
        if not isinstance(data, dict) or data.get("kind") != "calibration":
            raise UsageError(f"{path}: not a calibration")
        if data.get("schema") != SCHEMA:
            raise UsageError(f"{path}: a calibration of schema {data.get('schema')!r}, not {SCHEMA}: make it anew")
        return data, checked(Calibration, data)
    except Damaged as damage:
        raise UsageError(f"{path}: a calibration that does not fit ({damage}): make it anew") from damage
    except ValueError as error:
        raise UsageError(f"{path}: not a calibration: it is not JSON") from error


def doctor_rows(machine: Machine) -> NamedTexts:
    """The lines of `doctor`: advice about GPUs, and the state of the calibration."""
    advice = [advice for state in gpu_states(machine).values() for advice in gpu_advice(state)]
    yield from dict.fromkeys(("gpu-advice", line.text) for line in advice)
    try:
        _, made = _of_machine(machine, PATH)
        yield "calibration", f"{verdict(advice_for(made))}, {noise_text(made)}, made {made.date}"
    except UsageError as reason:
        yield "calibration", str(reason)
