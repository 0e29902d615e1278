"""Layers in two environments, such as two versions of torch: verdicts, ratios and versions.

    export HARNESS_BENCH_BASE=.venv-a HARNESS_BENCH_HEAD=.venv-b
    .venv/bin/python tests/extras/compare/bench_environments.py [LAYER …]

`HARNESS_BENCH_CONTROL` may name a copy of the base's environment. Without arguments: one layer of each family. Exact
facts that differ between the versions are part of the answer, so they are printed beside the ratio of times.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[3]
LAYERS = ("attention.fused", "attention.naive", "rnn.torch", "rnn.mingru", "conv.conv1d")
SIZES = ("seq_len=128,512", "d_model=64", "num_heads=4", "threads=1", "minutes=10")
SHOWN = ("seq_len", "verdict", "ratio", "ratio_lo", "ratio_hi", "memory_ratio", "flops_ratio", "control")


def environments() -> list[str]:
    """The options that name the environments. Ends the process if one is not named."""
    found = {name: os.environ.get(f"HARNESS_BENCH_{name}", "") for name in ("BASE", "HEAD", "CONTROL")}
    if not (found["BASE"] and found["HEAD"]):
        raise SystemExit("name two environments: HARNESS_BENCH_BASE=… HARNESS_BENCH_HEAD=…")
    return [f"env={found['BASE']},{found['HEAD']}", *([f"control={found['CONTROL']}"] if found["CONTROL"] else [])]


def compared(layer: str, options: list[str]) -> pd.DataFrame:
    """`comparison.csv` of a layer in both environments."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "compared"
        command = [sys.executable, "-m", "harness", "compare", *options, f"impl={layer}", *SIZES, f"out={out}"]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
        if done.returncode not in (0, 1, 3):
            raise SystemExit(done.stderr)
        return pd.read_csv(out / "comparison.csv")


def main(layers: list[str]) -> None:
    """Print a row for each layer and length, and the versions."""
    options, versions = environments(), ("", "")
    table = Table("layer", *SHOWN)
    for layer in layers:
        for row in compared(layer, options).itertuples():
            cells = (getattr(row, name) for name in SHOWN)
            table.add_row(layer, *(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells))
            versions = row.base_versions, row.head_versions
    console = Console(width=140)
    console.print(table)
    console.print(f"base: {versions[0]}\nhead: {versions[1]}", highlight=False)


if __name__ == "__main__":
    main(sys.argv[1:] or list(LAYERS))
