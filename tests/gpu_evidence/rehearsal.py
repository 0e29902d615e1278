"""Rehearse `.ci/cuda` on a simulated GPU as on a bare machine that ends at any moment.

    python tests/gpu_evidence/rehearsal.py [FOLDER]

Two plain copies of the project's files stand for two machines. Python finds its packages by PYTHONPATH alone; the
project is not installed, and PATH has neither git nor a compiler. Four parts start as on hardware. The others import
the same packages, so they are forked from one process that has imported them.

On the first machine every part is killed once it has measured something. The second one has nothing but the archive of
the first, and finishes every part. Whatever was measured before the kill must still be there.

Groups of parts are rehearsed beside each other. FOLDER (build/rehearsed) gets what they publish.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from forked_servers import ADDRESS, FORKED, WITH_LAYERS, WITH_SWEEP, Origin  # noqa: E402
from gpu_evidence.part_folder import DONE, RUNNING, PartFolder  # noqa: E402
from gpu_evidence.parts import PARTS, Part, rehearsed  # noqa: E402
from gpu_evidence.runner import environment  # noqa: E402

PUBLISHED = ROOT / "build" / "rehearsed"
_LONGEST_S, _LONGEST_END_S = 300, 10
# A part that keeps nothing while it measures is killed after this time.
_KILLED_AFTER_S = 1.0
_LOOK_EVERY_S = 0.05
# More than there are CPUs: the processes of a part often wait for each other.
_GROUPS = 3
_APPENDED = (".jsonl", ".txt")
# Trials of training would each import it: half a second.
_PREPARED = f"{WITH_LAYERS}{WITH_SWEEP}import torch.fx.experimental.symbolic_shapes\n"


class RehearsalFailed(Exception):
    """What `.ci/cuda` must do and has not done."""


@dataclass(frozen=True)
class Machine:
    """A copy of the project's files, and the folders that a command on it uses.

    Its fork servers, and most of its commands, come from one process, so that torch is imported once.
    """

    folder: Path
    origin: Origin

    @classmethod
    def new(cls, folder: Path, origin: Origin) -> "Machine":
        """A machine with nothing but the project's files."""
        shutil.rmtree(folder, ignore_errors=True)
        _copy_project(folder)
        return cls(folder, origin)

    @property
    def runs(self) -> Path:
        return self.folder / "build" / "cuda-rehearsal"

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start `.ci/cuda` without git, compilers and an installed project: packages are from PYTHONPATH alone."""
        python = getattr(sys, "_base_executable", sys.executable)
        command = [python, str(self.folder / ".ci" / "cuda"), *arguments, "--rehearse"]
        temporary = self.folder / "tmp"
        (self.folder / "bin").mkdir(exist_ok=True)
        temporary.mkdir(exist_ok=True)
        inherited = {name for name in os.environ if not name.startswith(("VIRTUAL_ENV", "PYTHON"))}
        variables = {name: os.environ[name] for name in inherited} | {
            "PATH": str(self.folder / "bin"),
            "PYTHONPATH": sysconfig.get_paths()["purelib"],
            "TMPDIR": str(temporary),
            ADDRESS: self.origin.address,
            FORKED: "1",
        }
        outputs: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=variables, **outputs)


def _copy_project(into: Path) -> None:
    """Copy the project's files, without git's own, and what Python has compiled of them."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        file = into / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, file)
    for package in ("harness", "impls", "tests"):
        for compiled in (ROOT / package).rglob("__pycache__"):
            shutil.copytree(compiled, into / compiled.relative_to(ROOT), dirs_exist_ok=True)


def kill_while_it_measures(machine: Machine, part: Part) -> None:
    """Begin a part, and kill `.ci/cuda` as soon as the part has kept something."""
    process = machine.start("inf", part.name)
    began = running_since = time.monotonic()
    while process.poll() is None:
        folder = PartFolder(part, machine.runs)
        if folder.state.status != RUNNING:
            running_since = time.monotonic()
        has_kept = any(file.stat().st_size for file in folder.kept_files())
        is_due = time.monotonic() - running_since > _KILLED_AFTER_S and not _keeps_rows(part)
        if folder.state.status == RUNNING and (has_kept or is_due):
            break
        if time.monotonic() - began > _LONGEST_S:
            raise RehearsalFailed(f"{part.name}: it has kept nothing after {_LONGEST_S} s")
        time.sleep(_LOOK_EVERY_S)
    state = PartFolder(part, machine.runs).state
    measuring = None if state.process is None else os.pidfd_open(state.process)
    process.kill()
    output, _ = process.communicate()
    if measuring is None and state.status != DONE:
        raise RehearsalFailed(f"{part.name}: it ended before it was killed\n{output}")
    if measuring is not None and not select.select([measuring], [], [], _LONGEST_END_S)[0]:
        raise RehearsalFailed(f"{part.name}: its command goes on after .ci/cuda was killed")


def _keeps_rows(part: Part) -> bool:
    return Path(part.kept).suffix != ".json"


def complete_lines(parts: Sequence[Part], runs: Path) -> dict[Path, str]:
    """The text of all kept files that grow, up to the last complete line."""
    files = [file for part in parts for file in PartFolder(part, runs).kept_files() if file.suffix in _APPENDED]
    return {file.relative_to(runs): file.read_text().rpartition("\n")[0] for file in files}


def rehearse(parts: Sequence[Part], folder: Path, origin: Origin) -> Path:
    """Kill each part on one machine, and finish all of them on another. Return the folder of what is published."""
    place = folder / "machine"
    first = Machine.new(place, origin)
    names = [part.name for part in parts]
    # The facts come last. Once they are there, each command first asks torch whether the GPU is the same.
    for part in reversed(parts):
        kill_while_it_measures(first, part)
        print(f"{part.name}: killed while it measured", flush=True)
    packing = first.start("0")
    packing.communicate()
    measured = complete_lines(parts, first.runs)
    packed = folder / "packed.tar.gz"
    shutil.move(first.runs.with_name("cuda-rehearsal.tar.gz"), packed)
    second = Machine.new(place, origin)
    published = folder / "published"
    # What is published is named after the GPU, which only the first part finds out.
    publishing = ["--publish", str(published)] if "facts" in names else []
    finishing = second.start("inf", *names, "--resume", str(packed), *publishing)
    output, _ = finishing.communicate()
    print(*(line for line in output.splitlines() if line.startswith("===")), sep="\n", flush=True)
    if finishing.returncode != 0:
        raise RehearsalFailed(f"{output}\nexit status {finishing.returncode}")
    for name, text in measured.items():
        if not (second.runs / name).read_text().startswith(text):
            raise RehearsalFailed(f"{name}: the second machine has lost what the first one measured")
    return published


def check_facts(published: Path) -> None:
    """Fail if a fact of the machine could not be had."""
    for file in published.glob("*/facts/facts.json"):
        errors = {name: fact for name, fact in json.loads(file.read_text()).items() if str(fact).startswith("error")}
        if errors:
            raise RehearsalFailed(f"facts: {errors}")


def main() -> None:
    """Rehearse all parts. Raises RehearsalFailed with what is wrong."""
    # Idle threads of torch and OpenBLAS would take the CPUs from the other groups.
    os.environ |= {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
    began = time.monotonic()
    target = Path(sys.argv[1] if len(sys.argv) > 1 else PUBLISHED)
    parts = [rehearsed(part) for part in PARTS]
    origin = Origin(_PREPARED)
    origin.start({**environment(rehearse=True), ADDRESS: origin.address})
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor() as pool:
        groups = [parts[first::_GROUPS] for first in range(_GROUPS)]
        folders = [Path(temporary, group[0].name) for group in groups]
        published, *_ = pool.map(rehearse, groups, folders, repeat(origin))
        check_facts(published)
        shutil.copytree(published, target, dirs_exist_ok=True)
    print(f"=== rehearsed {len(parts)} parts in {time.monotonic() - began:.0f} s; left: nothing")


if __name__ == "__main__":
    main()
