"""`python -m harness export RUN --format … [-o FILE]`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.cli import DONE
from harness.cli.parser import Parser
from harness.errors import UsageError

_EPILOG = """\
formats:
  pytest-benchmark          as its --benchmark-json: for pytest-benchmark compare, and to be read back here
  csv                       the summary, a line a case
  parquet                   the same, typed, with units; needs -o, or something other than a terminal
  github-action-benchmark   time and peak memory, as its tool customSmallerIsBetter reads them

examples:
  python -m harness export results/latest --format pytest-benchmark -o .benchmarks/0001_layers.json
  python -m harness export results/latest --format parquet -o layers.parquet

exit status: 0 done; 2 usage, or a run with nothing to export
"""


def run(arguments: Sequence[str]) -> int:
    """Write a run in another tool's format."""
    parser = Parser("export", "Write a run in another tool's format. Measures nothing.", _EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, such as results/latest")
    parser.add_argument("--format", required=True, metavar="FORMAT", help="one of those below")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="where to; standard output, if not given")
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that reads runs.
    from harness.exchange.formats import BINARY, check_format, export
    from harness.summary.stored import read_stored

    name, out = options.format, options.out
    check_format(name)
    if out is None and name in BINARY and sys.stdout.isatty():
        raise UsageError(f"{name} is nothing for a terminal: name a file with -o FILE")
    stored = read_stored(options.run)
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
