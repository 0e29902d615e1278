"""All that is small of a folder of runs as one file, which another machine continues from."""

import gzip
import io
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError)
LARGEST_BYTES = 12 * 2**20
# Plots are there as PNG too, and `report` makes a page of five megabytes from the rows. Compiled kernels are of this
# machine alone.
_LEFT_OUT_SUFFIXES = (".svg", ".html", ".tmp", ".lock")
_LEFT_OUT_FOLDER = "compile-cache"


def pack(runs: Path, archive: Path) -> list[str]:
    """Write the archive, whole or not at all. Return the names of files that are too large for it.

    Files may be written and removed meanwhile. Raises OSError if there is no room, for example.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    replacement = archive.with_name(f"{archive.name}.tmp")
    too_large = []
    try:
        with tarfile.open(replacement, "w:gz", compresslevel=4) as file:
            for path, content, changed_at in _files(runs):
                member = tarfile.TarInfo(path.relative_to(runs).as_posix())
                if content is None:
                    too_large.append(member.name)
                    continue
                member.size, member.mtime = len(content), int(changed_at)
                file.addfile(member, io.BytesIO(content))
        replacement.replace(archive)
    except OSError:
        replacement.unlink(missing_ok=True)
        raise
    return too_large


def _files(runs: Path) -> Iterator[tuple[Path, bytes | None, float]]:
    """The files to pack, their content (None if too large), and when it was written as seconds since the epoch."""
    for path in sorted(runs.rglob("*")):
        is_left_out = _LEFT_OUT_FOLDER in path.parts or path.suffix in _LEFT_OUT_SUFFIXES
        if is_left_out or path.is_symlink() or path.is_dir():
            continue
        try:
            about = path.stat()
            content = path.read_bytes() if about.st_size <= LARGEST_BYTES else None
        except FileNotFoundError:  # somebody has removed it since it was listed
            continue
        yield path, content, about.st_mtime


def read(archive: Path) -> tarfile.TarFile:
    """Read all of an archive and check its sum. Raises one of DAMAGE, or OSError if it cannot be read."""
    content = gzip.decompress(archive.read_bytes())
    return tarfile.open(fileobj=io.BytesIO(content), mode="r:")


def unpack(content: tarfile.TarFile, runs: Path) -> None:
    """Put the content of an archive into a folder of runs that does not exist yet or is empty, whole or not at all."""
    unpacked = runs.with_name(f"{runs.name}.unpacking")
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir(parents=True)
    content.extractall(unpacked, filter="data")
    unpacked.rename(runs)
