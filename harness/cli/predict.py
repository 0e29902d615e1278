"""The commands `predict RUN impl=… seq_len=…` and `recommend RUN seq_len=…`, for sizes measured or not.

Both take a size and one of the run's settings. Neither measures anything.
"""

import argparse
import sys
from typing import Any

from rich.console import Console

from harness.analysis import crossovers, predict
from harness.analysis.fitted_laws import FittedLaw, fit_laws
from harness.cli.commands import DONE
from harness.errors import UsageError
from harness.formatting import BYTE_UNITS
from harness.key_value_options import Key, bytes_in, read_keys, whole
from harness.report.document import Table, show
from harness.report.text.costs import held_out_sentences
from harness.report.text.predictions import no_recommendation, predictions, recommendation
from harness.results.columns import CaseResult
from harness.results.stored_run import read_run_directory
from harness.sweep_axes import SETTINGS

# The keys of both commands, beside their own.
_KEYS = (
    Key("seq_len", whole, many=True),
    *(Key(name, whole) for name in ("d_model", "num_heads", "batch_size")),
    *map(Key, SETTINGS),
)
_MEMORY = Key("memory", bytes_in, most=2**63, takes=f"bytes, or a number with {', '.join(BYTE_UNITS)}")


def _read(
    options: argparse.Namespace, own: Key
) -> tuple[dict[str, Any], list[CaseResult], list[FittedLaw], list[predict.SizeRequest]]:
    """The values of the keys, and the run's lines, laws and requested sizes.

    Each unreadable place of the run is a line on stderr. Raises UsageError for an invalid key, and if `run` is not a
    run.
    """
    given = read_keys(options.keys, (own, *_KEYS))
    stored = read_run_directory(options.run)
    for notice in stored.notices:
        print(f"harness: {notice}", file=sys.stderr)
    laws = fit_laws(stored.lines)
    return given, stored.lines, laws, predict.sizes_requested(given, laws, options.run)


def run_predict(options: argparse.Namespace) -> int:
    """Print the cost of a layer at each size."""
    given, lines, laws, sizes = _read(options, Key("impl", many=True))
    wanted = predict.laws_requested(given["impl"], laws, sizes[0].setting, options.run)
    without_heads = crossovers.layers_without_heads(lines)
    predicted = [(where, *predict.predict_each(wanted, where, without_heads)) for where in sizes]
    if not any(found for _, found, _ in predicted):
        raise UsageError(predicted[0][2][0])
    parts = [part for at_size in predicted for part in predictions(*at_size)]
    show([*parts, *held_out_sentences(predict.hold_out(lines))], Console())
    return DONE


def run_recommend(options: argparse.Namespace) -> int:
    """Print the recommended layer at each size."""
    given, lines, laws, sizes = _read(options, _MEMORY)
    parts: list[Table | str] = []
    refused, memory = [], given["memory"]
    for where in sizes:
        found = predict.recommend(lines, laws, where, memory)
        if reason := no_recommendation(found, memory):
            refused.append(f"At {where}: {reason}." if len(sizes) > 1 else reason)
        else:
            parts += recommendation(found, where, memory)
    if len(refused) == len(sizes):
        raise UsageError(refused[0])
    show([*parts, *refused], Console())
    return DONE
