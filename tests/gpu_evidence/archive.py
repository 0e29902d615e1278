"""All that is small of a folder of runs as one file, which another machine continues from."""

import tarfile
from pathlib import Path

_LARGEST_BYTES = 12 * 2**20
# Plots are there as PNG too. Compiled kernels are of this machine alone.
_LEFT_OUT_SUFFIXES = (".svg", ".tmp", ".lock")
_LEFT_OUT_FOLDER = "compile-cache"


def pack(runs: Path, archive: Path) -> None:
    """Write the archive, whole or not at all."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    replacement = archive.with_name(f"{archive.name}.tmp")
    with tarfile.open(replacement, "w:gz", compresslevel=4) as file:
        file.add(runs, arcname=".", filter=_small)
    replacement.replace(archive)


def _small(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    path = Path(member.name)
    is_left_out = _LEFT_OUT_FOLDER in path.parts or path.suffix in _LEFT_OUT_SUFFIXES
    return None if is_left_out or member.size > _LARGEST_BYTES else member


def unpack(archive: Path, runs: Path) -> None:
    """Put the content of an archive into a folder of runs."""
    runs.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as file:
        file.extractall(runs, filter="data")


def newest_change(runs: Path) -> float:
    """When a file of the runs was last written, as seconds since the epoch; 0 if there is none."""
    times = (file.stat(follow_symlinks=False).st_mtime for file in runs.rglob("*") if file.is_file())
    return max(times, default=0.0)
