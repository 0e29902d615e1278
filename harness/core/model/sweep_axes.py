"""A case, which is one point of a grid, and the table of its axes.

Everything that depends on the axes derives from the table: keys of commands, checks of values, settings, columns, and
the texts that name a case. A new axis is a new field of `Case`.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, NamedTuple, cast, get_type_hints

from .layer_options import NO_OPTIONS

MODES = ("forward", "train", "backward", "decode")
DTYPES = ("float32", "bfloat16", "float16", "float64")
DEVICES = ("cpu", "cuda", "xpu", "mps")
# Blocks of at least so many bytes are mapped anew at every call, whatever the heap. By default, glibc's threshold rises
# with the blocks that are freed, but never above DEFAULT_MMAP_THRESHOLD_MAX, see mallopt(3).
MAPPED_FROM_BYTES = {"default": 32 * 2**20, "steady": None, "fresh": 128 * 2**10}
ALLOCATORS = tuple(MAPPED_FROM_BYTES)
MASKS = ("none", "causal", "padding")
CACHES = ("cold", "clean", "hot")
LAUNCHES = ("eager", "graph")
INPUTS = ("normal", "outliers")
EQUAL = "equal"  # the usual value of `lengths`
# What each status of a case means.
STATUSES = {
    "ok": "measured",
    "oom": "more memory was needed than `memory_limit` or the machine allows",
    "timeout": "a trial took longer than `precision.timeout_s`, or compiling longer than `compile_timeout_s`",
    "killed": "a process outside killed the trial; `retry=killed` measures the case again",
    "unsupported": "the layer cannot do this case, or a package or a device is missing; the reason says which",
    "incorrect": "output or gradients differ from the float64 reference, or a call returned a kept or late result",
    "error": "the layer raised an exception or crashed; the reason names the line",
}
# Statuses of a case that ends without measurements.
FAILURES = tuple(STATUSES)[1:]
# Those that make the exit status 3. `check` reports a change to one of them whatever the status was before.
BAD_STATUSES = ("incorrect", "error", "killed")
# Long enough for several blocks of any blocked kernel in `impls`. A float64 reference still takes only milliseconds.
_SMALL_SEQ_LEN = 256
_SMALL_BATCH = 2


class Axis(NamedTuple):
    """One axis of a case: its values, its names and what else depends on them.

    - `type`: of its values. `default`: the value of an axis that is not given, or MISSING if it must be given.
    - `values`: all valid texts, or empty for any text.
    - `numbered`: those of them that may have a number, such as `cuda:1`.
    - `least`, `most`: the valid numbers. A fraction is below `most`. A size above `most` is taken for a mistake.
    - `letter`: the symbol in formulas and in the names of cases. `label`: its name on the page, by default `name`.
    - `phrase`: a value in words. `quiet`: the usual values, which titles leave out: by default the default alone.
    - `is_setting`: cases that differ along it are never compared with each other.
    - `of_layer`: the layer's constructor has a parameter of this name, if the layer can vary along the axis.
    - `own`: the layer's own value, as a formula, where the value is the default.
    - `divides`: the axis whose value must be a multiple of this one's.
    - `unit`: of its numbers, for files that other tools read. `help`: for `--help`.
    """

    name: str
    type: type
    default: Any
    values: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    least: float = 1
    most: float = 0
    letter: str = ""
    label: str = ""
    phrase: Callable[[Any], str] = str
    quiet: tuple[Any, ...] = ()
    is_setting: bool = True
    of_layer: bool = False
    own: str = ""
    divides: str = ""
    unit: str = ""
    help: str = ""

    def takes(self, value: Any) -> bool:
        """Whether a row may hold the value: a known text, or a number in the range of the axis. NaN is in no range."""
        is_type = type(value) is self.type and value != "" and (not self.values or self.is_known(value))
        return is_type and (self.type is str or self.least <= value <= self.most)

    def is_known(self, value: Any) -> bool:
        """Whether the value is one of `values`, with a number if it may have one."""
        name, _, number = str(value).partition(":")
        return value in self.values or (name in self.numbered and number.isdecimal() and number == str(int(number)))


def _axis(default: Any = MISSING, **known: Any) -> Any:
    """A field of `Case`. Its metadata are the fields of its `Axis`."""
    return field(default=default, metadata=known)


# Values by the name of their axis.
AxisValues = dict[str, Any]


@dataclass(frozen=True, order=True)
class Case:
    """What is measured. Sizes: n = `seq_len`, d = `d_model`, h = `num_heads`, b = `batch_size`.

    `mode`: `forward` computes no gradients, `train` runs forward and backward. With `backward`, the backward pass alone
    is timed; its forward pass is made outside the timed part. With `decode`, a call adds one token, with n in all.

    `num_heads` is 1 for a layer without heads. At most `threads` CPU threads are available to torch.

    `allocator` is how the C library treats large blocks. It decides by itself (`default`), keeps blocks for good
    (`steady`) or obtains new ones at every call (`fresh`).

    `mask` is which tokens a token may attend to: all (`none`), no later ones (`causal`), or all but padding
    (`padding`). A fraction `padding_fraction` of the batch's tokens is padding, 0 without.

    `kv_len` is the length of a source that is attended to. At 0 a layer attends to its own input.

    `num_kv_heads` is the number of heads of keys and values, g. At 0 a layer has its own number, which is h for most.

    `options` are further keywords that a layer takes, as one text: see `harness.core.model.layer_options`.

    `env` is the virtual environment that runs the trials, by its path as given, or `default` for the command's own.

    `cache` is what a GPU's cache holds before a call: other data that must be written back (`cold`), other data that
    need not (`clean`), or what the last call left (`hot`). `launch` is how calls reach a GPU: each operation by itself
    (`eager`), or all at once as a CUDA graph. On the CPU both have their defaults, and no effect.
    `inputs` is how inputs are filled: drawn from N(0, 1) (`normal`), or so with a few large channels (`outliers`).

    `lengths` are the lengths of the sequences in a batch, of which the longest has n tokens: see
    `harness.core.model.sequence_lengths`.
    """

    impl: str = _axis(label="layer", is_setting=False, help="the layer, or `module:Class` of your own")
    seq_len: int = _axis(
        most=10**9, letter="n", label="length n", unit="token", is_setting=False, help="sequence length n"
    )
    d_model: int = _axis(most=10**6, letter="d", label="width d", is_setting=False, help="width d")
    num_heads: int = _axis(
        most=10**6, letter="h", label="heads h", of_layer=True, divides="d_model", is_setting=False, help="heads h"
    )
    batch_size: int = _axis(
        1,
        most=10**6,
        letter="b",
        label="batch b",
        phrase="batch {}".format,
        quiet=(),
        is_setting=False,
        help="batch size b",
    )
    mode: str = _axis("forward", values=MODES, quiet=(), help="what one call is; decode: one more token")
    dtype: str = _axis("float32", values=DTYPES, quiet=(), help="of weights and inputs")
    device: str = _axis(
        "cpu", values=DEVICES, numbered=("cuda", "xpu"), quiet=(), help="where the layer runs; cuda:1 is the second GPU"
    )
    threads: int = _axis(
        1,
        most=1024,
        phrase=lambda t: f"{t} thread{'s' if t > 1 else ''}",
        quiet=(),
        help="CPU threads, by default all usable CPUs",
    )
    allocator: str = _axis(
        "default", values=ALLOCATORS, phrase="{} allocator".format, help="page faults: now and then, never, every call"
    )
    mask: str = _axis(
        "none",
        values=MASKS,
        phrase=lambda mask: "no mask" if mask == "none" else mask,
        quiet=("none", "padding"),
        help="which tokens a token may attend to",
    )
    padding_fraction: float = _axis(
        0.0,
        least=0,
        most=1,
        label="padding",
        phrase=lambda fraction: f"{100 * fraction:.0f} % padding",
        help="how much of a padded batch is padding",
    )
    kv_len: int = _axis(
        0,
        least=0,
        most=10**9,
        letter="m",
        label="source m",
        phrase=lambda m: f"source of {m}" if m else "no source",
        own="n",
        unit="token",
        help="cross-attention: the length of the source; 0: none",
    )
    num_kv_heads: int = _axis(
        0,
        least=0,
        most=10**6,
        letter="g",
        label="key-value heads g",
        phrase=lambda g: f"{g} key-value head{'s' if g > 1 else ''}" if g else "the layer's own key-value heads",
        of_layer=True,
        own="h",
        divides="num_heads",
        help="grouped-query attention: heads of keys and values; 0: the layer's own",
    )
    options: str = _axis(
        NO_OPTIONS,
        phrase=lambda text: "usual options" if text == NO_OPTIONS else text.replace("+", ", "),
        help="the layer's options, given as layer.NAME=…",
    )
    env: str = _axis(
        "default",
        label="environment",
        phrase=lambda env: "the default environment" if env == "default" else env,
        help="virtual environments that run the trials; default: the command's own",
    )
    inputs: str = _axis(
        "normal",
        values=INPUTS,
        phrase="inputs with {}".format,
        help="how inputs are filled; outliers: every 64th channel is 20 times as large",
    )
    cache: str = _axis(
        "cold", values=CACHES, phrase="{} cache".format, help="on a GPU: what the cache holds before a call"
    )
    launch: str = _axis(
        "eager",
        values=LAUNCHES,
        phrase=lambda launch: "CUDA graph" if launch == "graph" else launch,
        help="on a GPU: each operation by itself, or a call as one graph",
    )
    lengths: str = _axis(
        EQUAL,
        phrase="{} lengths".format,
        help="of the sequences in a batch: `equal`, `zipf`, `zipf:SEED`, or a file with one length a line",
    )

    @property
    def key(self) -> str:
        """The overrides that measure this case again: unique, stable, and ready to paste after `sweep`."""
        return " ".join(f"{name}={value}" for name, value in self.as_dict().items())

    @property
    def trains(self) -> bool:
        """Whether the mode has a backward pass."""
        return self.mode in ("train", "backward")

    @property
    def is_padded(self) -> bool:
        """Whether sequences may be shorter than n."""
        return self.mask == "padding" or self.lengths != EQUAL

    @property
    def tokens(self) -> int:
        """The number of tokens that one call processes, padding included."""
        return self.batch_size * (1 if self.mode == "decode" else self.seq_len)

    def small(self) -> "Case":
        """The case that is verified for its kind: n and the source length as `_small` returns them, b at most 2.

        A source that is as long as n or longer stays so, with tiles as full or as ragged. How a GPU is timed does not
        matter for that.
        """
        seq_len, kv_len = _small(self.seq_len), _small(self.kv_len)
        if kv_len < seq_len and self.kv_len >= self.seq_len:
            kv_len += _SMALL_SEQ_LEN
        return replace(self, seq_len=seq_len, kv_len=kv_len, batch_size=min(self.batch_size, _SMALL_BATCH), **OF_GPUS)

    def at(self, axis: str, size: int) -> "Case":
        """This case with another size along an axis."""
        changed: AxisValues = {axis: size}
        return replace(self, **changed)

    def __str__(self) -> str:
        """The readable form: the impl, its sizes, and whatever is unusual. No two cases have the same."""
        return f"{self.impl} {readable(self.as_dict())}"

    def as_dict(self) -> AxisValues:
        """The axes by name, as a row stores them."""
        # Each row calls this twice, and `dataclasses.asdict` copies.
        return {name: getattr(self, name) for name in AXES}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Case":
        """The case that `as_dict` wrote. Axes added since then get their defaults.

        Raises KeyError if a field without a default is missing, and TypeError if `data` is no mapping.
        """
        values = {**DEFAULTS, **data}
        return cls(**{name: values[name] for name in AXES})


def device_kind(device: str) -> str:
    """The kind of a device, without its number: `cuda` of `cuda:1`."""
    return device.partition(":")[0]


def _small(length: int) -> int:
    """The largest length up to 256 that divides by two as often as `length`, at most 8 times.

    Up to 256 that is `length` itself. A kernel's last tile is then as full or as ragged as at `length`. So a kernel
    that takes full tiles only can be verified too.
    """
    if length <= _SMALL_SEQ_LEN:
        return length
    tile = min(length & -length, _SMALL_SEQ_LEN)
    return tile * ((_SMALL_SEQ_LEN // tile - 1) | 1)  # an odd number of tiles: 255, 254, 252, 248, … 256


_TYPES = get_type_hints(Case)
# The table of axes, in the order of a case's key.
AXES = {
    one.name: Axis(
        one.name, _TYPES[one.name], one.default, **{"label": one.name, "quiet": (one.default,), **one.metadata}
    )
    for one in fields(Case)
}
# Axes along which cases are never compared with each other.
SETTINGS = tuple(name for name, axis in AXES.items() if axis.is_setting)
# Axes along which a sweep can extend the grid by doubling the size.
GROWING = ("seq_len", "d_model", "batch_size")
# The value of an axis that is not given.
DEFAULTS: AxisValues = {name: axis.default for name, axis in AXES.items() if axis.default is not MISSING}
# Axes of GPUs only, with the values that a case on the CPU has.
OF_GPUS: AxisValues = {name: DEFAULTS[name] for name in ("cache", "launch")}
# The environment of the command itself.
OWN_ENVIRONMENT: str = DEFAULTS["env"]
# The axis of each letter: `n` is short for `seq_len`.
LETTERS = {axis.letter: name for name, axis in AXES.items() if axis.letter}


def present_axis(name: Any) -> Any:
    """The long name of an axis given by its letter. Anything else stays as it is."""
    return LETTERS.get(name, name) if isinstance(name, str) else name


# Those of the axes along which a cost model can be fitted.
SIZES = {letter: name for letter, name in LETTERS.items() if not AXES[name].is_setting}
# Titles name what is computed first, then how. Names of cases begin with n and m.
_HOW = ("dtype", "batch_size", "device", "cache", "launch", "threads", "allocator", "env")
_TITLE_ORDER = (*(name for name in AXES if name not in _HOW), *_HOW)
_READABLE_ORDER = tuple(dict.fromkeys(("seq_len", "kv_len", *LETTERS.values(), *AXES)))


def readable(values: Mapping[str, Any]) -> str:
    """The sizes among the values of some axes, and whatever is unusual: `n=2048 d=128 h=8 b=4 train threads=2`."""
    words = []
    for name in _READABLE_ORDER:
        if name == "impl" or name not in values or values[name] == DEFAULTS.get(name):
            continue
        axis, value = AXES[name], values[name]
        words.append(value if axis.type is str else f"{axis.letter or name}={value}")
    return " ".join(words)


def setting_text(values: Mapping[str, Any]) -> str:
    """The values of some axes in words, for a title: `forward, causal, float32, batch 4, cpu, 2 threads`.

    Left out are usual values, and on a GPU the number of CPU threads.
    """
    hidden = () if values["device"] == "cpu" else ("threads",)
    shown = (name for name in _TITLE_ORDER if name in values and name not in hidden)
    return ", ".join(AXES[name].phrase(values[name]) for name in shown if values[name] not in AXES[name].quiet)


# The cast is for mypy, which allows literal names of fields only.
_SettingValues: Any = cast(Any, namedtuple)("Setting", SETTINGS, defaults=map(DEFAULTS.get, SETTINGS))


# The `kv_len` of a setting whose cases have sources of any length.
_ANY_SOURCE = -1


class Setting(_SettingValues):
    """What all points of a series have in common besides the layer: a value for every axis in `SETTINGS`."""

    @classmethod
    def of(cls, case: Any) -> "Setting":
        """The setting of a case, or of anything with its axes as attributes."""
        return cls(*(getattr(case, name) for name in SETTINGS))

    @property
    def of_any_source(self) -> "Setting":
        """The setting with a source of any length, whose cost models are in m. Without a source, the same setting."""
        return self._replace(kv_len=self.kv_len and _ANY_SOURCE)

    def as_dict(self) -> AxisValues:
        """The values by axis. The length of any source is `m`."""
        values = {name: getattr(self, name) for name in SETTINGS}
        return {**values, "kv_len": "m"} if self.kv_len == _ANY_SOURCE else values

    def __repr__(self) -> str:
        return f"Setting({setting_text(self.as_dict())})"
