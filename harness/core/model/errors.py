"""Errors a user can cause: one line that says what is wrong and what to do. Other tools' words for ours."""

import difflib
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

# A message lists at most this many known names.
_MOST_NAMED = 16
# Other tools' values are accepted, by axis: `dtype=fp16` is `dtype=float16`. Messages explain their names of axes.
VALUES = {
    "dtype": {
        "fp16": "float16",
        "half": "float16",
        "bf16": "bfloat16",
        "fp32": "float32",
        "single": "float32",
        "float": "float32",
        "fp64": "float64",
        "double": "float64",
    },
    "device": {"gpu": "cuda"},
}
_NAMES = {
    "impl": "layer layers impls model",
    "seq_len": "length seqlen seq_length sequence_length context tokens",
    "d_model": """
        dim width hidden hidden_size hidden_dim model_dim embed_dim embedding_dim n_embd
        features in_features out_features input_size
    """,
    "num_heads": "heads head n_heads nheads nhead num_attention_heads",
    "num_kv_heads": "kv_heads n_kv_heads num_key_value_heads",
    "batch_size": "batch bs bsz",
    "kv_len": "seq_len_kv seqlen_kv kv_seq_len memory_len",
    "head_dim": "head_size headdim d_head",
    "threads": "cpus num_threads nthreads",
    "memory_limit": "max_memory mem",
    "out": "output output_dir outdir",
    "points": "zip",
}
# Other tools' names of options that are a value of one of our axes.
OPTIONS = {"causal": "mask=causal", "is_causal": "mask=causal"}
# Our word for each word of other tools, for "did you mean".
MEANT = {word: name for name, words in _NAMES.items() for word in words.split()}
MEANT |= {word: value for aliases in VALUES.values() for word, value in aliases.items()}

_FACTORS = {"k": 2**10, "m": 2**20}


class UsageError(Exception):
    """The command cannot be carried out as given. The command line prints the message and exits with status 2."""


class CodeChanged(UsageError):
    """A layer's code was changed while it was measured. The message names the files."""


@contextmanager
def ended_by_changed_code(out: object) -> Iterator[None]:
    """Let CodeChanged, raised in the block, say how to go on with what `out` holds."""
    try:
        yield
    except CodeChanged as error:
        again = f"put the former code back and repeat the command with 'out={out}'"
        text = f"{error}. All rows before are kept: to continue, {again}; to measure the new code, name another out="
        raise CodeChanged(text) from None


@contextmanager
def usage_error_about(what: object) -> Iterator[None]:
    """Raise an OSError of the block as a UsageError that begins with `what`, such as a path."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror or error}") from error


def notify(*messages: object) -> None:
    """Print each message on a line of stderr that begins with the name of the program."""
    for message in messages:
        print(f"harness: {message}", file=sys.stderr)


def nearest(name: str, candidates: Iterable[str]) -> str:
    """The known name nearest to `name`; empty if none is near.

    Another tool's word for a known name counts as the nearest: `num_heads` for `heads`.
    """
    names = list(candidates)
    meant = MEANT.get(name.lower(), "")
    near = [meant] if meant in names else difflib.get_close_matches(name, names, n=1)
    return near[0] if near else ""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` with the known name nearest to `name`, or the known names if none is near.

    Of `precision.foo`, only the last part is compared, with those of all names that begin with `precision.`
    """
    names = list(candidates)
    option = OPTIONS.get(name.lower(), "")
    if option.partition("=")[0] in names:
        return f"; did you mean {option}?"
    group = name[: name.rfind(".") + 1]
    if of_group := [other for other in names if other.startswith(group)]:
        names = of_group
    else:
        group = ""
    if near := nearest(name.removeprefix(group), [other.removeprefix(group) for other in names]):
        return f"; did you mean '{group}{near}'?"
    more = f", … and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"; known: {', '.join(names[:_MOST_NAMED])}{more}" if names else ""


def unknown_key(name: str, keys: Collection[str]) -> str:
    """The message about an unknown key. A key like none of those known may be a keyword of the layer."""
    instead = did_you_mean(name, keys)
    is_option = "options" in keys and name.isidentifier() and "; known: " in instead
    return f"unknown key '{name}'{instead}" + (f"; a keyword of the layer is layer.{name}=…" if is_option else "")


def our_values(axis: str, text: str) -> str:
    """The text of an option's value with our words for the values of `axis`."""
    return re.sub(r"[A-Za-z]\w*", lambda word: VALUES[axis].get(word[0].lower(), word[0]), text)


def whole_numbers(text: str) -> str:
    """The text with all digits of each number that ends in k or M: `4k` is 4096, `1M` is 1048576."""
    number = r"(?<![\w.])(\d{1,12})([kKmM])(?!\w)"
    return re.sub(number, lambda match: str(int(match[1]) * _FACTORS[match[2].lower()]), text)
