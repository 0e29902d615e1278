"""`python -m harness attention-map "a sentence of words" [key=value …]`."""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness import catalog
from harness.case import Case
from harness.cli import DONE
from harness.cli.parser import Parser
from harness.csv_cells import escaped
from harness.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from harness.report.plots.attention_map import Weights

_KEYS = ("impl", "d_model", "num_heads", "mask", "seed", "out")
_MASKS = ("none", "causal")
# Upper limits: more words, heads or features would not be visible in a picture.
_MOST_WORDS, _MOST_HEADS, _MOST_FEATURES = 128, 64, 65536
# Up to these numbers of words and heads, the strongest weights are printed too.
_PRINTED_WORDS, _PRINTED_HEADS = 16, 6
_TABLE = "attention_map.csv"

_EPILOG = """\
keys:
  impl=attention.packed       a layer with attention_weights(x, attn_mask); your own too: module:Class
  d_model=64 num_heads=4      its size
  mask=none|causal            causal: no word looks at a later one
  seed=0                      draws the layer's weights, unless it loads its own: it has learned nothing
  out=DIR                     a new directory, or a run, to whose plots/ the pictures go; else results/<time>

The sentence is split on white space. Each word's vector is drawn from a generator that the word itself seeds (the same
word has the same vector), and sinusoidal positions are added.

examples:
  python -m harness attention-map "the cat sat on the mat"
  python -m harness attention-map "the cat sat on the mat" mask=causal num_heads=1 out=results/latest

exit status: 0 done; 2 usage, or a layer that has no attention to look at
"""


def run(arguments: Sequence[str]) -> int:
    """Draw the attention matrix of a layer."""
    parser = Parser("attention-map", "The attention matrix of a layer as a labelled heat map, a head each.", _EPILOG)
    parser.add_argument("sentence", help="words, in quotes")
    parser.add_argument("keys", nargs="*", metavar="key=value")
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that sweeps and fits laws.
    from harness.cli.asked import keys
    from harness.cli.looking import number, place, plots, runner, weights_said, with_heads

    words = _words(options.sentence)
    given = keys(options.keys, _KEYS)
    directory = place(given.get("out"), _TABLE)
    case = Case(
        _impl(given),
        seq_len=len(words),
        d_model=number(given, "d_model", 64, _MOST_FEATURES),
        num_heads=number(given, "num_heads", 4, _MOST_HEADS),
        mask=_mask(given),
    )
    seed = number(given, "seed", 0, 2**63 - 1, least=0)
    with runner() as started:
        started.start()
        import numpy as np

        from harness.report.plots.attention_map import attention_map
        from harness.report.plots.letters import fonts_for
        from harness.report.plots.save import save

        case = with_heads(case, started)
        outcome = started.run("attention_map", case, {"seed": seed, "words": [_number(word) for word in words]})
    if outcome["status"] != "ok":
        raise UsageError(f"{case.impl}: {outcome['reason']}")
    weights = np.array(outcome["weights"])  # (h, n, n)
    whose = weights_said(outcome["own_weights"], f"seed {seed}")
    figure = attention_map(words, weights, case.mask == "causal", f"{_heading(case, weights)}, {whose}")
    saved = save(figure, plots(directory) / "attention_map")
    _write(directory / _TABLE, words, weights)
    _show(words, weights, whose)
    print(f"Every row sums to 1, to within {outcome['row_error']:.1e}.")
    if fonts_for(words)[1]:
        print("No font here has all of its letters: they are boxes in the .png, and text in the .svg.")
    print(*(str(path) for path in (*saved, directory / _TABLE)), sep="\n")
    return DONE


def _words(sentence: str) -> list[str]:
    words = sentence.split()
    if len(words) == 1 and words[0].partition("=")[0] in _KEYS and "=" in words[0]:
        raise UsageError(f"'{words[0]}' is no sentence: it comes first, in quotes")
    if not words:
        raise UsageError("the sentence is empty: give its words, in quotes")
    if len(words) > _MOST_WORDS:
        raise UsageError(f"the sentence has {len(words)} words: a picture shows {_MOST_WORDS} at most")
    return words


def _impl(given: Mapping[str, str]) -> str:
    impl = given.get("impl", "attention.packed")
    catalog.check_name(impl)
    return impl


def _mask(given: Mapping[str, str]) -> str:
    mask = given.get("mask", "none")
    if mask not in _MASKS:
        raise UsageError(f"unknown mask '{mask}'{did_you_mean(mask, _MASKS)}")
    return mask


def _number(word: str) -> int:
    """A seed of 63 bits for the word, the same in every run."""
    return int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 1


def _heading(case: Case, weights: "Weights") -> str:
    mask = ", causal" if case.mask == "causal" else ""
    return f"{case.impl}: d = {case.d_model}, h = {len(weights)}{mask}"


def _write(path: Path, words: Sequence[str], weights: "Weights") -> None:
    """Write one line per weight; positions count from 1."""
    # Invalid characters, which a broken argument can contain, are written as escapes.
    cells = [escaped(word) for word in words]
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("head", "query", "query_position", "key", "key_position", "weight"))
        for head, matrix in enumerate(weights, start=1):
            for i, row in enumerate(matrix):
                for j, weight in enumerate(row):
                    table.writerow((head, cells[i], i + 1, cells[j], j + 1, f"{weight:.9g}"))


def _show(words: Sequence[str], weights: "Weights", whose: str) -> None:
    """Print which word each word attends to most, by head, and whose weights these are. Skips long sentences."""
    if len(words) > _PRINTED_WORDS or len(weights) > _PRINTED_HEADS:
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from harness.report.plots.letters import label

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("word", overflow="fold")
    for head in range(len(weights)):
        table.add_column(f"head {head + 1}", overflow="fold")
    for i, word in enumerate(words):
        strongest = [(matrix[i].argmax(), matrix[i].max()) for matrix in weights]
        cells = [f"{escape(label(words[j], 16))} {weight:.2f}" for j, weight in strongest]
        table.add_row(escape(label(word, 24)), *cells)
    console = Console()
    console.out(f"Each word looks most at ({whose}):", highlight=False)
    console.print(table)
