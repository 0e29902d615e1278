"""Refuse to mix runs: those of two commands at once, of a rehearsal and a GPU, or of two GPUs."""

import contextlib
import fcntl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_evidence.part_folder import read_json

# What a folder of rehearsed runs holds from the start.
REHEARSAL = "rehearsal.txt"


class Refused(Exception):
    """Why a command does nothing more, and what to do, in one sentence."""


@contextlib.contextmanager
def alone(runs: Path) -> Iterator[None]:
    """Keep other commands from these runs until this process ends in any way. Raises Refused if one is there."""
    runs.parent.mkdir(parents=True, exist_ok=True)
    with runs.with_name(f"{runs.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"another command runs in {runs}: wait until it ends, or name another --runs") from None
        yield


def check_kind(where: Path, names: list[str], rehearse: bool) -> None:
    """Raise Refused if a folder or an archive that holds these names is of the other kind of runs."""
    is_rehearsal = REHEARSAL in names
    if is_rehearsal and not rehearse:
        raise Refused(f"{where} is a rehearsal, whose figures mean nothing: add --rehearse, or name other runs")
    if names and rehearse and not is_rehearsal:
        raise Refused(f"{where} is no rehearsal: leave out --rehearse, or name other runs")


def check_gpu(runs: Path, variables: Mapping[str, str]) -> None:
    """Raise Refused if the runs are of another kind of GPU. On another one of the same kind, facts are found anew."""
    facts, card = runs / "facts", runs / "facts" / "card.json"
    known = read_json(facts / "facts.json") | read_json(card)
    gpu = known_gpu(known)
    if gpu is None:
        return
    here = card.with_suffix(".tmp")
    found = _gpu_here(here, variables)
    if found.get("gpu") != gpu:
        raise Refused(f"{runs} is of {gpu}, and here is {found.get('gpu')}: name another --runs")
    if found.get("properties") != known.get("properties"):
        print(f"Another {gpu} than before: its facts are found anew.", flush=True)
        (facts / "state.json").unlink(missing_ok=True)
    here.replace(card)


def known_gpu(facts: Mapping[str, Any]) -> str | None:
    """The GPU's name; None if the facts have none, or only the error that was met instead."""
    gpu = facts.get("gpu")
    return None if gpu is None or gpu.startswith("error") else gpu


def _gpu_here(file: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """The facts of the GPU that torch uses here, which are also written to a file."""
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "gpu_evidence.machine_facts", str(file), "gpu", "properties"]
    subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, check=False, process_group=0)
    return read_json(file)
