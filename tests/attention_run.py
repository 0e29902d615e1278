"""A small run of two attention layers, with a failure in it."""

from pathlib import Path

from rows import attention_time, measured, row

from harness.core.config import compose
from harness.core.model.sweep_axes import Case
from harness.core.results import row_files, run_directory

SIZES = (64, 128, 256, 512)
MACHINE = {"host": "vm", "kernel": "Linux 6.1", "python": "3.11.7", "cpu": {"model": "EPYC", "threads": 2}}


def make_run(path: Path, slower: float = 1.0) -> Path:
    """Naive and fused attention at four lengths, three trials each, and one that ran out of memory."""
    run_directory.create(path, compose([]).record, {**MACHINE, "user_commit": "abc123-dirty"})
    writer = row_files.RowWriter(path)
    for case in (Case(impl, n, 64, 2) for impl in ("attention.naive", "attention.fused") for n in SIZES):
        for one in measured(case, slower * attention_time(case), 8 * case.seq_len**2):
            writer.write({**one, "at": 1_700_000_000.0})
    writer.write(row(Case("attention.packed", 512, 64, 2), "facts", status="oom", reason="out | of\nmemory"))
    writer.close()
    return path
