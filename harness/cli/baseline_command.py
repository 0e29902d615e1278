"""`python -m harness baseline RUN`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.cli import DONE
from harness.cli.parser import Parser
from harness.errors import UsageError

_EPILOG = """\
The file is JSON, one small thing a line and always in the same order: commit it, and read its diff.
`python -m harness check FILE` measures its cases again and says what got worse. Times stand in it as information.

examples:
  python -m harness baseline results/latest -o baseline.json
  python -m harness baseline results/latest | diff baseline.json -

exit status: 0 done; 2 usage, or a run without any case that could be measured
"""


# Statuses that may be due to chance, and may not occur again.
_BY_CHANCE = ("timeout", "killed")


def run(arguments: Sequence[str]) -> int:
    """Write the known facts of a run's cases to a file that `check` reads."""
    parser = Parser("baseline", "What a run found, as a file to hold later code against. Measures nothing.", _EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, such as results/latest")
    parser.add_argument("-o", dest="out", type=Path, metavar="FILE", help="where to; without, it is printed")
    options = parser.parse_args(arguments)
    # Imported here so that `--help` does not load the code that fits laws.
    import harness
    from harness.findings.laws import fit_laws
    from harness.findings.verdicts import verdicts
    from harness.gate.baseline import baseline_of
    from harness.gate.baseline_file import write
    from harness.gate.baseline_text import text_of
    from harness.gate.keyed import subject
    from harness.summary.stored import read_stored

    stored = read_stored(options.run)
    for notice in stored.notices:
        print(f"harness: {notice}", file=sys.stderr)
    if not any(line.status == "ok" for line in stored.lines):
        raise UsageError(
            f"{options.run} has no case that could be measured: there is nothing to hold later code against"
        )
    if all(line.flops is None and line.ops is None and line.peak_bytes is None for line in stored.lines):
        raise UsageError(f"{options.run} has times alone: a baseline is of facts, which a sweep takes")
    for line in stored.lines:
        if line.status in _BY_CHANCE:
            said = f"{subject(line.case)}: {line.status}: kept as such, and never judged; better measure it again"
            print(f"harness: {said}", file=sys.stderr)
    seed = stored.config.get("seed", 0)
    if type(seed) is not int:
        raise UsageError(f"{options.run}: seed={seed} in config.yaml is no number")
    laws = fit_laws(stored.lines)
    found = baseline_of(stored.lines, laws, verdicts(stored.lines, laws), stored.machine, seed, harness.__version__)
    if options.out is None:
        print(text_of(found), end="")
        return DONE
    write(found, options.out)
    print(f"{options.out}: {len(found.cases)} cases, {len(found.laws)} laws, {len(found.claims)} claims")
    return DONE
