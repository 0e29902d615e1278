"""The command `export RUN`."""

import argparse
import sys

from harness.cli.commands import DONE
from harness.cli.parsers import add_out, add_run
from harness.core.model.errors import UsageError, did_you_mean, notify, usage_error_about
from harness.core.model.extra_tables import entries
from harness.core.model.formatting import counted


def _export(parser: argparse.ArgumentParser) -> None:
    """Write a run in another tool's format, or a case of it as a script or a problem. Measures nothing.

    formats:
      pytest-benchmark          as --benchmark-json writes it, for pytest-benchmark compare; this harness reads it too
      csv                       the summary, one line per case
      parquet                   the same with types and units; needs -o, or standard output that is not a terminal
      github-action-benchmark   time and peak memory, as its tool customSmallerIsBetter reads them
      script                    one case, or two that differ in the layer, as Python without the harness: your own
                                files, a check, a timer, and the measured figures as a comment
      liger-csv                 time, its interval and memory as rows of Liger's benchmark table
      pytorch-hud               time, peak memory, FLOPs and depth as records of PyTorch's HUD, version 3
      huggingface-kernels       the times of trials, as `kernels benchmark` writes those of calls
      flashinfer-trace          a trace, one a line, for each case of a solution of a FlashInfer definition
      kernelbench               the layer of a case as a problem file of KernelBench
      flashinfer-definition     a layer without weights as a definition of FlashInfer Trace

    examples:
      python -m harness export results/latest --format pytest-benchmark -o .benchmarks/0001_layers.json
      python -m harness export results/latest --format parquet -o layers.parquet
      python -m harness export results/latest --format script --case 'attention.fused n=512' -o issue.py

    exit status: 0 done; 2 usage error, or a run with nothing to export
    """
    add_run(parser)
    names = ", ".join(name for name, _, _ in entries("FORMATS"))
    parser.add_argument("--format", required=True, metavar="FORMAT", help=f"one of {names}")
    about = "with script or a problem: words of the case's name; give it twice to compare two layers in a script"
    parser.add_argument("--case", action="append", default=[], metavar="'LAYER n=N …'", help=about)
    add_out(parser, "a file to write or replace; default: standard output", "FILE")


def run_export(options: argparse.Namespace) -> int:
    """Write a run in another tool's format."""
    from harness.core.results.stored_run import read_run_directory

    from .formats import FORMATS, OF_CASES, export

    name, out = options.format, options.out
    if name not in FORMATS:
        raise UsageError(f"unknown format '{name}'{did_you_mean(name, FORMATS)}")
    if options.case and name not in OF_CASES:
        raise UsageError("--case chooses the cases of a script or problem: give such a --format, or leave it out")
    stored = read_run_directory(options.run)
    exported = export(stored, name, options.case)
    if out is None and b"\0" in exported.content and sys.stdout.isatty():
        raise UsageError(f"{name} cannot be printed to a terminal: name a file with -o FILE{FORMATS[name][0]}")
    notify(*stored.notices, *exported.notices)
    if out is None:
        sys.stdout.buffer.write(exported.content)
        sys.stdout.buffer.flush()
        return DONE
    with usage_error_about(out):
        out.write_bytes(exported.content)
    print(f"{out}: {counted(exported.cases, 'case')}, {name}")
    return DONE
