"""Run the parts of `.ci/cuda` within a number of seconds, and keep all that they measure.

    .ci/cuda SECONDS [PART…]

`SECONDS` is the time for everything, from the start of this command; `inf` is no limit, and `0` only packs. Without a
PART, all parts run in the order of their worth; `papers` names all parts that begin with `papers.`.

A part that is done is not run again. A part that is out of time gets Ctrl-C, at which a sweep reports what it has, and
continues in the next call. What the parts write is packed into one archive every few seconds and after each part, so
that a kill at any moment loses nothing: `--resume ARCHIVE` continues on another machine.

It needs a copy of the project's files and the packages of pyproject.toml, wherever Python finds them: no installation
of the project, no git and no compiler. The exit status is 0 if all is done and packed, 1 if not, and 2 if the command
is refused or has nowhere to write.
"""

import argparse
import contextlib
import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_evidence import archive, guards, publish
from gpu_evidence.guards import Refused
from gpu_evidence.part_folder import DONE, FAILED, OUT_OF_TIME, RUNNING, PartFolder
from gpu_evidence.parts import PARTS, ROOT, SIMULATED_GPU, Part, expectation, rehearsed

PUBLISHED = ROOT / "results" / "published"
SUMMARY = "summary.txt"
# The last archive is written, and the last lines are printed, in this time.
_PACKING_S = 5
# While a part runs, the archive is renewed this often.
_RENEWED_EVERY_S = 5
_LOOK_EVERY_S = 0.05
_PRINTED_COLUMNS = 170
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, see prctl(2)


class Stopped(Exception):
    """Somebody ends this command: Ctrl-C, or the signal of a batch system or a closed terminal."""


class Runner:
    """Runs parts one after the other, until `seconds` have passed since `began`."""

    def __init__(self, runs: Path, packed: Path, seconds: float, rehearse: bool) -> None:
        self.runs, self.packed, self.rehearse = runs, packed, rehearse
        self.began = time.monotonic()
        self.seconds = seconds
        self.is_packed = False
        self._packed_at, self._told = self.began, ""

    def passed_s(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self.began

    def run(self, parts: Sequence[Part]) -> list[str]:
        """Run the parts that fit. Return the names of those that are left."""
        folders = [PartFolder(part, self.runs) for part in parts]
        for folder in folders:
            part = folder.part
            room_s = self.seconds - self.passed_s() - part.grace_s - _PACKING_S
            if folder.state.status == DONE or room_s < part.least_s:
                continue
            self._say(f"\n=== {part.name}: {folder.printed_command()}")
            self._run_part(folder, min(room_s, part.most_s))
            self._show(folder)
        self.pack()
        return [folder.part.name for folder in folders if folder.state.status != DONE]

    def _run_part(self, folder: PartFolder, seconds: float) -> None:
        """Run one part for that long at most, and note how it ended."""
        before_s, began = folder.state.seconds, time.monotonic()
        folder.begin()
        with folder.output.open("ab") as output:
            process = self._start(folder, output)
            folder.state.status, folder.state.reason, folder.state.process = RUNNING, "", process.pid
            folder.state.attempts += 1
            try:
                folder.save()
                exit_status = self._wait(folder, process, seconds, before_s)
            finally:
                _end(process, folder.part.grace_s)
                folder.state.seconds = before_s + time.monotonic() - began
                folder.save()
        _judge(folder, exit_status)
        folder.save()
        self.pack()

    def _start(self, folder: PartFolder, output: Any) -> subprocess.Popen:
        return subprocess.Popen(
            folder.command(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT if folder.part.in_checkout else self.runs,
            env=environment(self.rehearse) | folder.variables(),
            process_group=0,
            preexec_fn=_die_with_parent,
        )

    def _wait(self, folder: PartFolder, process: subprocess.Popen, seconds: float, before_s: float) -> int | None:
        """Wait for the end of a part. Return its exit status, None if the time is over before."""
        began = time.monotonic()
        while (exit_status := process.poll()) is None and time.monotonic() - began < seconds:
            time.sleep(_LOOK_EVERY_S)
            if time.monotonic() - self._packed_at > _RENEWED_EVERY_S:
                folder.state.seconds = before_s + time.monotonic() - began
                folder.save()
                self.pack()
        return exit_status

    def pack(self) -> None:
        """Renew the archive, or print once why that fails. Print which files are left out of it."""
        told = ""
        try:
            if too_large := archive.pack(self.runs, self.packed):
                told = f"left out of the archive, each over {archive.LARGEST_BYTES >> 20} MiB: {', '.join(too_large)}"
            self.is_packed = True
        except OSError as error:
            told, self.is_packed = f"{self.packed} cannot be renewed: {error}; the runs stay in {self.runs}", False
        if told not in ("", self._told):
            print(told, flush=True)
        self._packed_at, self._told = time.monotonic(), told

    def _show(self, folder: PartFolder) -> None:
        for line in folder.last_lines():
            print(line[:_PRINTED_COLUMNS])
        state = folder.state
        reason = f" ({state.reason})" if state.reason else ""
        duration = f"after {state.seconds:.0f} s, {self.passed_s():.0f} s in all"
        self._say(f"=== {folder.part.name}: {state.status}{reason} {duration}")

    def _say(self, text: str) -> None:
        """Print a line of the summary, and keep it."""
        print(text, flush=True)
        with (self.runs / SUMMARY).open("a") as file:
            file.write(f"{text}\n")


def _judge(folder: PartFolder, exit_status: int | None) -> None:
    """Note whether a part is done, and the reason if it is not."""
    state, is_accepted = folder.state, exit_status in folder.part.accepts
    state.process, state.status, state.reason = None, OUT_OF_TIME, ""
    if exit_status is not None:
        state.reason = folder.lack() if is_accepted else f"exit status {exit_status}"
        state.status = FAILED if state.reason else DONE


def _die_with_parent() -> None:
    """End this process if the runner is killed: the next call would measure beside it otherwise."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _end(process: subprocess.Popen, grace_s: float) -> None:
    """Interrupt a process as Ctrl-C does. Then kill what it has started, and itself if it goes on after `grace_s`."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError):  # nothing is left of its group
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment(rehearse: bool, root: Path = ROOT) -> dict[str, str]:
    """The variables of all parts: the folders of the project in `root` come before what PYTHONPATH holds.

    Modules are compiled once, because hundreds of processes import them.
    """
    folders = [root / "tests", root]
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    if rehearse:
        folders.insert(0, root / "tests" / "simulated_cuda" / "startup")
        variables["HARNESS_SIMULATED_CUDA"] = json.dumps(SIMULATED_GPU)
    before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    variables["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *before])
    return variables


def chosen_parts(names: Sequence[str], parts: Sequence[Part]) -> list[Part]:
    """The parts of these names, in this order; all parts without a name. Raises ValueError for an unknown name."""
    chosen: list[Part] = []
    for name in names:
        named = [part for part in parts if part.name == name or part.name.startswith(f"{name}.")]
        if not named:
            raise ValueError(f"no part {name!r}; choose from: {' '.join(part.name for part in parts)}")
        chosen += named
    return chosen or list(parts)


def show_plan(parts: Sequence[Part], runs: Path, rehearse: bool) -> None:
    """Print what each part shows and how long it takes."""
    expected = expectation(list(parts), None if rehearse else PUBLISHED)
    print(f"Seconds expected: {expected.source}.")
    width = max(len(part.name) for part in parts)
    total_s = 0.0
    for part in parts:
        status = PartFolder(part, runs).state.status
        seconds = expected.seconds[part.name]
        total_s += 0.0 if status == DONE else seconds
        source = "measured" if part.name in expected.measured else "estimate"
        print(f"{part.name:<{width}} {seconds:6.0f} s {source} {total_s:7.0f} s in all   {status:<11} {part.shows}")
    print(flush=True)


def read_ahead() -> subprocess.Popen:
    """Start to read what the first processes would otherwise wait for, one after the other."""
    command, silent = [sys.executable, "-m", "gpu_evidence.read_ahead"], subprocess.DEVNULL
    variables = environment(rehearse=False)
    return subprocess.Popen(command, stdout=silent, stderr=silent, env=variables, preexec_fn=_die_with_parent)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(".ci/cuda", description=__doc__, formatter_class=as_written)
    parser.add_argument("seconds", type=_seconds, metavar="SECONDS")
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--rehearse", action="store_true", help="small sizes on a simulated GPU, in two minutes")
    parser.add_argument("--runs", type=Path, help="folder of all runs (build/cuda, or build/cuda-rehearsal)")
    parser.add_argument("--archive", type=Path, help="file to pack them into (the folder's name and .tar.gz)")
    parser.add_argument("--resume", type=Path, metavar="ARCHIVE", help="continue from this archive")
    parser.add_argument("--publish", type=Path, metavar="FOLDER", help="copy small results to FOLDER/GPU at the end")
    options = parser.parse_args(arguments)
    try:
        options.parts = chosen_parts(options.parts, PARTS)
        if options.resume is not None and not options.resume.is_file():
            raise ValueError(f"--resume {options.resume}: there is no such file")
        may_overwrite = options.rehearse and options.archive is options.runs is None
        folder = "cuda-rehearsal" if options.rehearse else "cuda"
        options.runs = (options.runs or ROOT / "build" / folder).absolute()
        options.archive = (options.archive or options.runs.with_name(f"{options.runs.name}.tar.gz")).absolute()
        if options.archive.is_relative_to(options.runs):
            raise ValueError(f"--archive {options.archive}: choose a file outside {options.runs}, which it holds")
        if options.archive.exists() and not (may_overwrite or options.resume or options.runs.exists()):
            raise ValueError(f"{options.archive} holds other runs: add --resume {options.archive}, or name another")
        if options.rehearse and options.publish and options.publish.resolve().is_relative_to(PUBLISHED.resolve()):
            raise ValueError(f"--publish {options.publish}: a rehearsal has no results; name another folder")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return options


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds) or seconds < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds; inf is no limit")
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        options = parsed(sys.argv[1:] if arguments is None else arguments)
        with guards.alone(options.runs):
            return _main(options)
    except Refused as refused:
        reason = str(refused)
    except Stopped:
        print("stopped: the same command continues", flush=True)
        return 1
    except OSError as error:  # no room on the disk, for example
        reason = f"{error}; what was measured stays in {options.runs}"
    print(f".ci/cuda: {reason}", file=sys.stderr)
    return 2


def _main(options: argparse.Namespace) -> int:
    runner = Runner(options.runs, options.archive, options.seconds, options.rehearse)
    prepare(options)
    parts = [rehearsed(part) for part in options.parts] if options.rehearse else options.parts
    archive.pack(options.runs, options.archive)  # raises OSError now if it cannot be written
    show_plan(parts, options.runs, options.rehearse)
    reading = None if options.rehearse or options.seconds == 0 else read_ahead()
    try:
        left = runner.run(parts)
    except Stopped:
        runner.pack()
        left = [part.name for part in parts if PartFolder(part, options.runs).state.status != DONE]
        print("\nstopped: the same command continues", flush=True)
    finally:
        if reading is not None:
            reading.kill()
            reading.wait()
    print(f"\n=== {runner.passed_s():.0f} s; {options.archive}; left: {', '.join(left) or 'nothing'}", flush=True)
    if options.publish is not None:
        print(f"published in {publish.publish(parts, options.runs, options.publish, options.rehearse)}", flush=True)
    return 0 if runner.is_packed and not left else 1


def prepare(options: argparse.Namespace) -> None:
    """Make the folder of runs, or check that it can be continued here. Raises Refused if not."""
    names = os.listdir(options.runs) if options.runs.exists() else []
    if options.resume is not None and names:
        print(f"{options.runs} exists and is continued; {options.resume} is not read", flush=True)
    elif options.resume is not None:
        try:
            content = archive.read(options.resume)
            guards.check_kind(options.resume, content.getnames(), options.rehearse)
            archive.unpack(content, options.runs)
        except archive.DAMAGE as error:
            raise Refused(f"{options.resume} is damaged, and left as it is: {error}") from error
        names = os.listdir(options.runs)
    guards.check_kind(options.runs, names, options.rehearse)
    options.runs.mkdir(exist_ok=True)
    if options.rehearse:
        (options.runs / guards.REHEARSAL).write_text("Small sizes on a simulated GPU: the figures mean nothing.\n")
    if options.seconds:
        guards.check_gpu(options.runs, environment(options.rehearse))


def _stop(number: int, frame: Any) -> None:
    for further in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the last archive is written now
        signal.signal(further, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    sys.exit(main())
