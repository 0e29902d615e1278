"""Read a stored run: the input of every command that does not measure.

A stored run is the directory of a run, possibly measured on several hosts, or a file of pytest-benchmark JSON.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from harness.core.config.machine import Machine, changed_gpu_settings, gpu_states, unlike, with_gpus
from harness.core.config.schema import Precision
from harness.core.model.errors import UsageError, usage_error_about
from harness.core.model.file_io import from_csv, read_text
from harness.core.model.file_validation import Damaged, checked
from harness.core.model.formatting import counted
from harness.core.model.sweep_axes import SETTINGS, Case, Setting

from .columns import CaseResult, records_of_table, with_own_axes
from .row import add_line
from .row_files import SkippedLines
from .run_directory import CONFIG, MACHINE, check_run, machines, read_config, read_machine
from .summarise import summarise_run


def machine_of_hosts(hosts: Mapping[str, Machine]) -> Machine:
    """The machines of several hosts as one: that of the first host, with the names of all hosts as `host`."""
    return {**next(iter(hosts.values())), "host": ", ".join(hosts)}


def host_notices(lines: Sequence[CaseResult], hosts: Mapping[str, Machine]) -> list[str]:
    """Notices for a run of several hosts; none for a single host.

    One notice says how many cases each host measured. Further notices warn if different machines measured cases with
    the same settings, because such cases are compared with each other, and of hosts that no file describes.
    """
    settings = dict[str, Counter[Setting]]()
    for line in lines:
        if line.host is not None:
            settings.setdefault(line.host, Counter())[Setting.of(line)] += 1
    strangers = sorted({host for names in settings for host in names.split(",")} - hosts.keys())
    unlike_machines = "calibrated peaks, cost models, exponents and comparisons may mix unlike machines"
    notices = [f"no file of the run describes {', '.join(strangers)}: {unlike_machines}"] if hosts and strangers else []
    if len(settings) < 2:
        return notices
    every = list(dict.fromkeys(chain(*settings.values())))
    varied = [place for place, values in enumerate(zip(*every, strict=True)) if len(set(values)) > 1]

    def text(of: Iterable[Setting]) -> str:
        return ", ".join(" ".join(f"{SETTINGS[at]}={setting[at]}" for at in varied) for setting in of if varied)

    who = [
        f"{host}: {counted(of_host.total(), 'case')}" + (f" ({text(of_host)})" if varied else "")
        for host, of_host in sorted(settings.items())
    ]
    notices.insert(0, f"measured by {'; '.join(who)}")
    return [*notices, *_mixed_machines(settings, hosts, {setting: text([setting]) for setting in every})]


def _mixed_machines(
    settings: Mapping[str, Collection[Setting]], hosts: Mapping[str, Machine], names: Mapping[Setting, str]
) -> Iterator[str]:
    """A sentence for each setting, by its name, in which unlike machines measured."""
    for setting, name in names.items():
        texts = [host for host, of_host in settings.items() if setting in of_host]
        of_setting = sorted(set(",".join(texts).split(",")))
        first, *further = [host for host in of_setting if host in hosts] or [""]
        for other in further:
            who = f"{name + ': ' if name else ''}{first} and {other}"
            machines_of_both = hosts[first], hosts[other]
            if differing := _in_the_present(unlike(*machines_of_both)):
                mixed = "cost models, exponents and comparisons mix the times of both"
                yield f"{who} are unlike machines ({differing}): {mixed}"
            if differing := _in_the_present(changed_gpu_settings(*machines_of_both)):
                yield f"{who} have different GPU settings ({differing}): compare their times with care"


def gpu_notices(hosts: Mapping[str, Machine]) -> list[str]:
    """A notice for each host whose GPUs differ from each other in what decides their times."""
    notices = []
    for host, machine in hosts.items():
        (first, state), *further = gpu_states(machine).items() or [("", {})]
        differences = unlike(with_gpus(machine, {first: state}), with_gpus(machine, dict(further))) if further else []
        if differing := _in_the_present(differences):
            notices.append(f"{host}: its GPUs differ ({differing}): cost models and comparisons mix their times")
    return notices


def _in_the_present(differences: Iterable[str]) -> str:
    """Differences between two times as those between two machines."""
    return "; ".join(text.replace(" before and ", " and ").removesuffix(" now") for text in differences)


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run: its lines, a notice for each unreadable place in its rows, its configuration and its machine.

    The configuration is empty if no sweep measured the run.
    """

    path: Path
    lines: list[CaseResult]
    notices: list[str]
    config: dict[str, Any]
    machine: Machine


def read_run_directory(path: Path) -> StoredRun:
    """Read the run at `path` from its rows, or from `summary.csv` if only the tables were kept.

    If `path` is a file, read it as pytest-benchmark JSON. Raises UsageError if `path` is not a run or its configuration
    is unreadable.
    """
    if path.is_file():
        from .pytest_benchmark_file import read_pytest_benchmark  # imports pydantic

        lines, notices, described = read_pytest_benchmark(path)
        return StoredRun(path, lines, notices, {}, described)
    published = not (path / "rows").exists() and (path / "summary.csv").is_file()
    if not published:
        check_run(path)
    config, precision = _checked_config(path)
    if published:
        lines, notices = _read_published(path / "summary.csv")
        notices.insert(0, f"{path} has no rows/: rebuilt from summary.csv, which holds one line per case")
    else:
        lines, notices = summarise_run(path, precision)  # the precision determines why each case stopped
    machine, damages = read_machine(path / MACHINE)
    hosts, of_hosts = machines(path)
    notices += [*host_notices(lines, hosts), *dict.fromkeys([*damages, *of_hosts])]
    if (path / "machines").is_dir() and hosts:  # the machines that measured, not the one that submitted the jobs
        machine = machine_of_hosts(hosts)
        notices += gpu_notices(hosts)
    return StoredRun(path, lines, notices, config, machine)


def _read_published(path: Path) -> tuple[list[CaseResult], list[str]]:
    """Read the lines of a run that kept only its tables, and a notice for each line that is left out."""
    lines = dict[Case, CaseResult | None]()
    skipped = SkippedLines()
    with usage_error_about(path):
        try:
            text = read_text(path)
            if text and not text.endswith("\n"):
                raise UsageError("the table is not whole: it ends within a line")
            records, bounded = records_of_table(from_csv(text))
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        except ValueError as error:  # not UTF-8, not a table, or not a table of lines
            raise UsageError(f"{path} is not a run's summary") from error
    for number, record in enumerate(records, start=2):
        try:
            add_line(record, bounded, lines)
        except (ValueError, UsageError) as error:
            skipped.add(path, number, str(error))
    if skipped.named and not any(lines.values()):
        raise UsageError(skipped.named[0])
    return with_own_axes(filter(None, lines.values())), skipped.notices()


def _checked_config(run: Path) -> tuple[dict[str, Any], Precision]:
    path = run / CONFIG
    with usage_error_about(path):
        config = read_config(run) or {}
    if not config:
        raise UsageError(
            f"{path} is not a sweep's configuration: it is missing, empty or not plain YAML; remove tags such as !name"
        )
    try:
        return config, checked(Precision, config.get("precision"))
    except Damaged as damage:
        raise UsageError(f"{path} is not a sweep's configuration (precision: {damage})") from damage
