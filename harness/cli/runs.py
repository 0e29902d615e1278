"""The commands `report RUN [-o DIR]` and `export RUN --format FORMAT [-o FILE]`, which read a run."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from harness.cli import DONE
from harness.cli.options import Parser
from harness.errors import UsageError
from harness.report.background_plots import BackgroundPlots


def run_report(arguments: Sequence[str]) -> int:
    """Rebuild a run's tables and plots and print its answer."""
    parser = Parser("report", "Rebuild the tables and plots of a run from its rows. Measures nothing.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or a pytest-benchmark JSON")
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="where to write; default: into the run")
    parser.add_argument("--no-plots", action="store_true", help="write only tables and reports, which saves seconds")
    options = parser.parse_args(arguments)
    path, out = options.run, options.out
    _check(path, out)
    with nullcontext() if options.no_plots else BackgroundPlots() as studio:
        # Imported here: the process that draws loads its libraries meanwhile.
        from harness.report.build import build
        from harness.report.terminal import show_answer

        report = build(path, studio, out)
    for notice in report.notices:
        print(f"harness: {notice}", file=sys.stderr)
    console = Console()
    show_answer(report.lines, report.findings, console)
    console.out(f"{out or path}: {', '.join(report.written)}", highlight=False)
    return DONE


def _check(run: Path, out: Path | None) -> None:
    """Raise UsageError without a directory to write to, or if it contains another run, whose tables would be lost."""
    if out is None and run.is_file():
        raise UsageError(f"{run} is a file: name a directory for the report with -o DIR")
    if out is not None and (out / "config.yaml").exists() and out.resolve() != run.resolve():
        raise UsageError(f"{out} is another run: name a directory of its own with -o DIR")


_EXPORT_EPILOG = """\
formats:
  pytest-benchmark          as its --benchmark-json writes it: for pytest-benchmark compare; this harness reads it too
  csv                       the summary, one line per case
  parquet                   the same with types and units; needs -o, or standard output that is not a terminal
  github-action-benchmark   time and peak memory, as its tool customSmallerIsBetter reads them

examples:
  python -m harness export results/latest --format pytest-benchmark -o .benchmarks/0001_layers.json
  python -m harness export results/latest --format parquet -o layers.parquet

exit status: 0 done; 2 usage error, or a run with nothing to export
"""


def run_export(arguments: Sequence[str]) -> int:
    """Write a run in another tool's format."""
    parser = Parser("export", "Write a run in another tool's format. Measures nothing.", _EXPORT_EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, such as results/latest")
    parser.add_argument("--format", required=True, metavar="FORMAT", help="one of the formats below")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="where to write; default: standard output")
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that reads runs.
    from harness.export import BINARY, check_format, export
    from harness.results.run_directory import read_run_directory

    name, out = options.format, options.out
    check_format(name)
    if out is None and name in BINARY and sys.stdout.isatty():
        raise UsageError(f"{name} cannot be printed to a terminal: name a file with -o FILE")
    stored = read_run_directory(options.run)
    exported = export(stored, name)
    for notice in [*stored.notices, *exported.notices]:
        print(f"harness: {notice}", file=sys.stderr)
    if out is None:
        sys.stdout.buffer.write(exported.content)
        sys.stdout.buffer.flush()
        return DONE
    _write(out, exported.content)
    print(f"{out}: {exported.cases} case{'s' if exported.cases > 1 else ''}, {name}")
    return DONE


def _write(out: Path, content: bytes) -> None:
    try:
        out.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from error
