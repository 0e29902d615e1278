"""The directory that a run is: made once, told from others, linked to as the latest."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError


def check_new(out: Path) -> None:
    """Raise UsageError unless a run can be made at `out`; writes nothing."""
    try:
        _check_new(out)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error


def _check_new(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise UsageError(f"out={out} is a file: name a directory")
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"out={out} is not empty: name a new directory")
    nearest = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        raise UsageError(f"out={out}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK) or os.statvfs(nearest).f_flag & os.ST_RDONLY:
        raise UsageError(f"out={out}: {nearest} cannot be written to")


def create(out: Path, config_yaml: str, machine: Mapping[str, Any]) -> None:
    """Make the directory of a new run, with how it was configured and where it ran. Raises UsageError if it cannot."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "rows").mkdir()  # whoever makes it has the run: of two sweeps that start together, one is refused
        (out / "config.yaml").write_text(config_yaml, encoding="utf-8")
        (out / "machine.json").write_text(json.dumps(machine, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except FileExistsError as error:
        raise UsageError(f"out={out}: another sweep has just started there") from error
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error


def link_latest(out: Path) -> None:
    """Point `latest`, beside the run, to it; a file or directory of that name is somebody's own and stays."""
    link = out.parent / "latest"
    if link.is_symlink() or not link.exists():
        fresh = link.with_name(f".latest-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(out.name)
        fresh.replace(link)


def check_run(run: Path) -> None:
    """Raise UsageError unless `run` is a run's directory."""
    if not (run / "rows").is_dir() or not (run / "config.yaml").is_file():
        raise UsageError(f"{run} is not a run: it has no rows/ and config.yaml")
