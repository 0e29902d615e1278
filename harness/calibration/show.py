"""A calibration on the terminal: what was measured and read, the verdict, and the advice."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.calibration.advice import DISTURBED, NOISE, OTHERS, STEAL, advise, percent, verdict
from harness.calibration.measured import Calibration
from harness.case import Case
from harness.report import units

_NOT_READABLE = "not readable here"
_COLOURS = {"fit": "green", "usable with care": "yellow", "not fit": "red"}


def show(c: Calibration, console: Console) -> None:
    """Print the calibration."""
    table = Table(
        title=f"{c.host}, {c.cpu_model if c.device == 'cpu' else c.gpu}, threads={c.threads}, torch {c.torch_version}",
        title_justify="left",
        show_header=False,
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for section in (_noise(c), _peaks(c), _machine(c)):
        for name, value in section:
            table.add_row(Text(name), Text(value))
        table.add_section()
    console.print(table)
    advice = advise(c)
    word = verdict(advice)
    what = {"fit": "Fit to measure on.", "usable with care": "Usable with care.", "not fit": "Not fit to measure on."}
    console.print(Text(what[word], style=_COLOURS[word]))
    limits = {"noise floor": NOISE, "steal": STEAL, "other load": OTHERS, "disturbed trials": DISTURBED}
    told = ", ".join(f"{name} {percent(limit.care)} / {percent(limit.unfit)}" for name, limit in limits.items())
    console.print(Text(f"(care / not fit above: {told}; and what is said below)", style="dim"))
    for one in advice:
        console.print(Text(f"- {one.level}: {one.text}"))


def _noise(c: Calibration) -> Iterator[tuple[str, str]]:
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
    yield "a reading of the clock", f"{units.seconds(c.clock_s)} ({source})"


def _short(key: str) -> str:
    fields = dict(pair.split("=", 1) for pair in key.split())
    return str(Case(fields["impl"], int(fields["seq_len"]), int(fields["d_model"]), int(fields["num_heads"])))


def _peaks(c: Calibration) -> Iterator[tuple[str, str]]:
    for dtype, flops in c.peak_flops_per_s.items():
        yield f"peak, {dtype}", f"{_three(flops / 1e9)} GFLOP/s (product of {c.peak_sizes[dtype]}²)"
    if c.bandwidth:
        b = c.bandwidth
        yield (
            "memory bandwidth, read + write",
            f"copy {_three(b['copy_bytes_per_s'] / 1e9)} GB/s, triad {_three(b['triad_bytes_per_s'] / 1e9)} GB/s "
            f"(arrays of {units.size(b['buffer_bytes'])})",
        )


def _machine(c: Calibration) -> Iterator[tuple[str, str]]:
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
    yield "swap", f"{units.size(s.swap_used_bytes)} used, {units.size(c.load.swapped_bytes)} moved meanwhile"
    yield "transparent huge pages", s.huge_pages or _NOT_READABLE
    yield "on battery", _yes(s.on_battery, "yes", "no")


def _yes(value: bool | None, yes: str, no: str) -> str:
    return _NOT_READABLE if value is None else yes if value else no


def _three(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
