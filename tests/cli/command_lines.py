"""Command lines of `sweep` that hypothesis makes up: mostly ones that can be carried out, each broken now and then.

They are written for the scratch directory of `in_scratch`, and name nothing outside it.
"""

import string

from cli.in_scratch import BROKEN_SHAPES, NAMES, RUN_OVERRIDES
from hypothesis import strategies as st

_OURS = ("rnn.torch", "rnn.elman", "attention.fused", "attention.naive")
IMPLS = (*_OURS, "own:Layer", "'glob(rnn.*)'", "glob(attention.*)")
WORDS = {
    "mode": ("forward", "train", "backward", "decode"),
    "dtype": ("float32", "bfloat16", "float16", "float64"),
    "device": ("cpu", "cuda"),
    "allocator": ("default", "steady", "fresh"),
    "mask": ("none", "causal", "padding"),
    "lengths": ("equal", "zipf", "zipf:3"),
}
SIZES = {
    "seq_len": (1, 2048),
    "d_model": (1, 64),
    "num_heads": (1, 8),
    "batch_size": (1, 4),
    "threads": (1, 4),
    "kv_len": (0, 64),
}
GROUPS = {
    "precision": ("quick", "standard", "strict"),
    "shape": ("bert_base", "default", "gpt2", "vit_b16", "llama_7b", "mine"),
    "preset": ("default", "ladder"),
    "paper": ("vaswani2017_table1", "flashattention2", "katharopoulos2020", "null"),
}
NUMBERS = ("target", "trial_s", "timeout_s", "case_s", "patience_s")
ROUNDS = ("min_rounds", "max_rounds")
STATUSES = ("oom", "timeout", "killed", "unsupported", "incorrect", "error")
KEYS = (
    *("impl", "padding_fraction", "out", "seed", "memory_limit", "compile_timeout_s", "grow", "retry", *WORDS, *SIZES),
    *("scale", "points", *GROUPS, *(f"precision.{name}" for name in (*NUMBERS, *ROUNDS))),
)
# What stands for something in Hydra's grammar, in a path, on a terminal, or nowhere; 0xDCFF is a byte that is no UTF-8.
ODD = "[](){},'\"\\$@~+-*?:=./#%&;!|<> \t\n" + "äß漢🙂\u202e\u2028\x1b\x7f\udcff" + "0123456789eExn_"
# No slash, that it stays where it is; nor what a file system has no name for.
_IN_A_NAME = [letter for letter in ODD if letter not in "/\n"] + list(string.ascii_lowercase)


def _swept(item: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """One of them, or several in one of the ways that Hydra's grammar has for it."""
    several = st.lists(item, min_size=1, max_size=3)
    return st.one_of(
        item,
        several.map(",".join),
        several.map(lambda items: f"[{','.join(items)}]"),
        several.map(lambda items: f"[{items[0]}],[{','.join(items)}]"),
        several.map(lambda items: f"choice({', '.join(items)})"),
        several.map(lambda items: f"sort({','.join(items)},reverse=true)"),
        several.map(lambda items: f"shuffle({','.join(items)})"),
        several.map(lambda items: f"tag(some, choice({','.join(items)}))"),
    )


def _size(least: int, most: int) -> st.SearchStrategy[str]:
    ranges = st.tuples(st.integers(least, most), st.integers(1, 3), st.integers(1, 9))
    stepped = ranges.map(lambda r: f"range({r[0]},{r[0] + r[1] * r[2]},{r[2]})")
    return st.one_of(_swept(st.integers(least, most).map(str)), stepped)


def _number(least: float, most: float) -> st.SearchStrategy[str]:
    return st.one_of(st.floats(least, most, exclude_min=True).map(repr), st.integers(1, max(1, int(most))).map(str))


def _override(key: str, value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return value.map(lambda text: f"{key}={text}")


def _one_of(key: str, words: tuple[str, ...]) -> st.SearchStrategy[str]:
    return _override(key, st.sampled_from(words))


# A new directory, with blanks, brackets and signs of all scripts in its name, which is quoted if need be.
_new_name = st.text(_IN_A_NAME, min_size=1, max_size=12).map(lambda name: f"new-{name}")
_quoted = _new_name.map(lambda name: "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'")
_PLACES = (*NAMES, "new", "new/deeper/run", "./new", "here/../new", "${seed}", "'${oc.env:HOME}/new'", "null")
_blanks = st.sampled_from(("'", '"', "")).map(lambda quote: f"{quote}a new one, 2 {quote}")
_out = st.one_of(st.sampled_from(_PLACES), _blanks, _quoted, _quoted)
_point = st.fixed_dictionaries({"seq_len": st.integers(1, 2048), "batch_size": st.integers(1, 4)})
_points = st.lists(_point, min_size=1, max_size=3).map(lambda points: str(points).replace("'", "").replace(" ", ""))
VALID = st.one_of(
    *(_override(key, _size(*limits)) for key, limits in SIZES.items()),
    *(_override(key, _swept(st.sampled_from(words))) for key, words in WORDS.items()),
    _override("impl", _swept(st.sampled_from(IMPLS))),
    _override("padding_fraction", _swept(st.floats(0, 0.99).map(repr))),
    *(_one_of(key, options) for key, options in GROUPS.items()),
    *(_override(f"precision.{name}", _number(0, 1e3)) for name in NUMBERS),
    _override("precision.min_rounds", st.integers(1, 4).map(str)),
    _override("precision.max_rounds", st.integers(4, 10**12).map(str)),
    _override("out", _out),
    _override("out", _out),
    _override("seed", st.integers(0, 2**63 - 1).map(str)),
    _one_of("memory_limit", ("8GiB", "1.5GiB", "67108864", "1e9", "null", "16MiB")),
    _override("compile_timeout_s", _number(0, 1e9)),
    _one_of("scale", ("cpu", "full")),
    _override("points", _points),
    _one_of("grow", ("seq_len", "d_model", "batch_size", "null")),
    _override("retry", _swept(st.sampled_from(STATUSES))),
)
_depth = st.integers(1, 400)
_WRONG = (
    *("", "null", "true", "???", "nan", "inf", "-inf", "1e999", "-1", "0", "-0.0", "1e99", "1_000", "0x10", "1.5"),
    *("[]", "[[]]", "{}", "{a:1}", "{a:[1,{b:2}]}", "[null]", "[1,2", "1,2]", "1,,2", ",", "1,", "''", "'", '"', "\\"),
    *("range(1,1)", "range(5,1)", "range(1,9,0)", "range(1,2,1e-30)", "range(a,b)", "range(1,2000)", "range(1,9000)"),
    *("range(1,100002)", "range(1,1000000000)", "99999999999999999999", "9" * 5000, "8XiB", "nanGiB", "-1GiB"),
    *("interval(1,2)", "interval(2,1)", "glob(*)", "glob()", "glob([*],exclude=*)", "rnm.*", "*", "choice()", "f(x)"),
    *("sort(1,a)", "int(a)", "str(1)", "float(nan)", "json_str({a:1})", "extend_list(1)", "../precision/quick"),
    *("${seq_len}", "${d_model}", "${precision}", "${precision.target}", "${nothing}", "${oc.env:HOME}", "${", "${.}"),
    *("${..}", "${${mode}}", "${oc.env:ABSENT}", "${oc.decode:'[1'}", "${oc.decode:'\"a\\0b\"'}", "${now:%Y}"),
    *("${oc.dict.keys:precision}", "${hydra:runtime.cwd}", "quick,strict", "absent:Layer", "own:", ":"),
    *("a/b.py:Layer", "a\udcff/b.py:Layer", "'a\nb/c.py:Layer'"),
)
_any_value = st.one_of(
    st.sampled_from(_WRONG),
    st.integers().map(str),
    st.floats().map(repr),
    st.text(list(ODD), max_size=12),
    st.text(st.characters(exclude_characters="\0/"), max_size=8),
    st.tuples(_depth, _depth).map(lambda depths: "[" * depths[0] + "1" + "]" * depths[1]),
    _depth.map(lambda depth: "[" * depth + "1" + "]" * depth),
    _depth.map(lambda depth: "choice(" * depth + "1" + ")" * depth),
)
# Of any text in the place of a directory only what cannot lead out of the scratch directory.
_broken_key = st.one_of(
    st.sampled_from(
        ("seqlen", "", "precision", "precision.targt", "hydra.run.dir", "hydra/launcher", "shape@here", "defaults")
    ),
    st.text(list(ODD), max_size=6),
)
BROKEN = st.one_of(
    st.builds(lambda key, value: f"{key}={value}", st.sampled_from([key for key in KEYS if key != "out"]), _any_value),
    st.builds(lambda key, value: f"{key}={value}", st.sampled_from([key for key in KEYS if key != "out"]), _any_value),
    _any_value.filter(lambda value: "/" not in value and "HOME" not in value).map(lambda value: f"out={value}"),
    st.builds(lambda key, value: f"{key}={value}", _broken_key, _any_value),
    st.builds(
        lambda sign, key, rest: f"{sign}{key}{rest}",
        *(st.sampled_from(("~", "+", "++", "+++", "-", "--", "@")), st.sampled_from(KEYS)),
        st.sampled_from(("", "=", "=1", "@a:b=1", "=quick", ":=1")),
    ),
    _broken_key,
)
_FLAGS = (
    *(["--fresh"], ["--config-dir", "conf"], ["--config-dir=conf"], ["--config-dir", "absent"]),
    *(["--config-dir", "taken"], ["--config-dir"], ["--fast"], ["--"], ["--fresh=1"]),
    *(["--config-dir", "broken conf", f"shape={name}"] for name in BROKEN_SHAPES),
)
_flags = st.lists(st.sampled_from(_FLAGS), max_size=2)


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """The arguments of a sweep, the word `sweep` left out: in three of five nothing but what can be."""
    overrides = draw(st.lists(VALID, max_size=5))
    if draw(st.integers(0, 4)) >= 3:
        overrides += draw(st.lists(BROKEN, min_size=1, max_size=2))
    flags = draw(_flags) if draw(st.integers(0, 2)) == 2 else []
    arguments = draw(st.permutations([[override] for override in overrides] + flags))
    return [argument for some in arguments for argument in some]


@st.composite
def going_on(draw: st.DrawFn) -> list[str]:
    """The arguments of a sweep on an existing run: those that began it, sometimes others."""
    at = draw(st.sampled_from(("run", "./run", "elsewhere", "broken run", "run begun")))
    more = draw(
        st.lists(st.one_of(_override("retry", _swept(st.sampled_from(STATUSES))), st.just("--fresh")), max_size=2)
    )
    other = draw(st.one_of(st.just([]), st.just([]), st.lists(VALID | BROKEN, max_size=1)))
    return draw(st.permutations([*RUN_OVERRIDES, f"out={at}" if " " not in at else f"out='{at}'", *more, *other]))
