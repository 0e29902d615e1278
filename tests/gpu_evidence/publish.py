"""Copy what is small of a GPU's runs to a folder of its name, with the commands that made it."""

import json
import shutil
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gpu_evidence.guards import Refused, known_gpu
from gpu_evidence.part_folder import DONE, PartFolder, read_json
from gpu_evidence.parts import DURATIONS, ROOT, Part

RECORDED = ROOT / "tests" / "core" / "trial" / "timing" / "cuda" / "recorded"
_OF_A_PART = ("command.txt", "facts.json", "clock.jsonl", "comparisons.jsonl", "record.json", "passed.txt")
_OF_A_SWEEP = ("config.yaml", "machine.json", "report.md")


def publish(parts: Sequence[Part], runs: Path, into: Path, is_rehearsal: bool) -> Path:
    """Copy the parts that have measured anything. Return the folder of the GPU.

    Pages of HTML and plots as SVG are too large to keep. The record of a real GPU also goes where the tests of the
    simulated one find it. Raises Refused without the facts of the machine, which name the GPU.
    """
    facts = runs / "facts" / "facts.json"
    gpu = known_gpu(read_json(facts))
    if gpu is None:
        raise Refused(f"nothing is published, because {facts} names no GPU: run the part facts")
    target = into / gpu.lower().replace(" ", "-")
    target.mkdir(parents=True, exist_ok=True)
    folders = [PartFolder(part, runs) for part in parts]
    for folder in folders:
        if folder.state.attempts:
            _copy_part(folder, target / folder.part.name)
    _write_durations(folders, gpu, target / DURATIONS)
    calibration = runs / "results" / "calibration.json"
    if calibration.exists():
        shutil.copy(calibration, target)
    record = runs / "record" / "record.json"
    if record.exists() and not is_rehearsal:
        RECORDED.mkdir(exist_ok=True)
        shutil.copy(record, RECORDED / f"{target.name}.json")
    return target


def _copy_part(folder: PartFolder, target: Path) -> None:
    target.mkdir(exist_ok=True)
    _copy(folder.path, _OF_A_PART, target)
    (target / "output.txt").write_text("\n".join(folder.last_lines()) + "\n")
    run = folder.path / "run"
    if not (run / "summary.csv").exists():
        return
    _copy(run, (*_OF_A_SWEEP, *(table.name for table in run.glob("*.csv"))), target)
    with tarfile.open(target / "rows.tar.gz", "w:gz") as packed:
        packed.add(run / "rows", arcname="rows")
    for plot in run.glob("plots/*.png"):
        (target / "plots").mkdir(exist_ok=True)
        shutil.copy(plot, target / "plots")


def _copy(source: Path, names: Sequence[str], target: Path) -> None:
    for name in names:
        if (source / name).exists():
            shutil.copy(source / name, target)


def _write_durations(folders: Sequence[PartFolder], gpu: str, file: Path) -> None:
    """The seconds of the parts that are done, from which later calls expect theirs. Those of other parts stay."""
    done = {folder.part.name: round(folder.state.seconds) for folder in folders if folder.state.status == DONE}
    seconds = read_json(file).get("seconds", {}) | done
    record = {"gpu": gpu, "date": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": seconds}
    file.write_text(json.dumps(record, indent=1) + "\n")
