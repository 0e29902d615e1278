"""Hydra's part in a configuration: the grammar of overrides, and the composition of the files that they choose.

The grammar is read by Hydra's own parser: `a=1,2`, `a=range(1,9,2)`, `a=glob(x.*)`, `a=[1,2]`.

Hydra's errors span several lines, describe its internals and omit the file. Here each error is one line: which setting
is wrong, and what it takes. The chosen files of `--config-dir` are named: one of them has the wrong setting.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep, Override, QuotedString
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.core.model.errors import UsageError, did_you_mean, unknown_key
from harness.core.model.file_io import MOST_YAML_BYTES, read_text
from harness.core.model.sweep_axes import AXES, device_kind
from impls.registry import IMPLS

from .key_value_options import MOST_VALUES, Values, any_impl, flattened
from .schema import HEAD_DIM, PAPER, PLAIN, SCALE, SWEEPS_ALONE, keys

# Groups of sizes that the sizes of a paper would replace silently.
_ELSEWHERE = ("shape", "preset")
_LONGEST_QUOTE = 300
_PACKAGE = Path(__file__).resolve().parents[2]


def conf_directory() -> Path:
    """The location of `conf/`: inside the package if installed from a wheel, beside the package in a checkout."""
    inside = _PACKAGE / "conf"
    return inside if inside.is_dir() else _PACKAGE.parent / "conf"


def groups(config_dir: Path | None, for_sweep: bool) -> dict[str, list[str]]:
    """The groups of files to choose from, and the options of each group.

    `conf/` defines all groups. `config_dir` only adds options; its other content is ignored.
    """
    names = sorted(path.name for path in conf_directory().iterdir() if path.is_dir())
    return {group: _options(group, config_dir) for group in names if for_sweep or group not in SWEEPS_ALONE}


def _options(group: str, config_dir: Path | None) -> list[str]:
    directories = [conf_directory(), *([config_dir] if config_dir else ())]
    return [file.stem for directory in directories for file in sorted((directory / group).glob("*.yaml"))]


def scaled(overrides: Sequence[str], config_dir: Path | None) -> tuple[list[str], list[str]]:
    """`(overrides without scale, overrides that replace scale for Hydra)`.

    `paper=NAME scale=full|cpu` is a published setting, at the published sizes or at sizes for a machine without a GPU.
    For Hydra, the scales of a paper are the group of files `paper/NAME/`. Users need not know this. Raises UsageError
    for an unknown scale, and for a scale without a paper.
    """
    unscaled = [override for override in overrides if key_of(override) != SCALE]
    scale, paper = _last(overrides, SCALE), _last(overrides, PAPER)
    if scale is None:
        return unscaled, []
    if paper in (None, "null"):
        raise UsageError(f"scale={scale} is of a published setting: give paper=NAME too")
    scales = sorted({*_options(f"{PAPER}/{paper}", config_dir)})
    if scales and scale not in scales:
        raise UsageError(f"unknown scale '{scale}'{did_you_mean(scale, scales)}")
    return unscaled, [f"{PAPER}/{paper}@_global_={scale}"] if scales else []  # an unknown paper is reported elsewhere


def check_paper(content: Any, overrides: Sequence[str]) -> Values:
    """The publication as a dictionary; empty without a paper.

    Raises UsageError if the paper's file states no name or another name than its own. Sizes from a shape or a preset
    are an error too.
    """
    name = _last(overrides, PAPER)
    if name in (None, "null"):
        return {}
    if not isinstance(content, Mapping) or content.get("name") != name:
        raise UsageError(
            f"paper={name}: its file must begin with `# @package _global_`, and have `paper: {{name: {name}, …}}`"
        )
    for override in overrides:
        if key_of(override) in _ELSEWHERE:
            raise UsageError(f"{override}: paper={name} has sizes of its own; override those: seq_len=…, d_model=…")
    return dict(content)


def _last(overrides: Iterable[str], key: str) -> str | None:
    values = [override.partition("=")[2].strip() for override in overrides if key_of(override) == key]
    return values[-1] if values else None


def one_line(text: str) -> str:
    """A message of a library as one line, of limited length."""
    return " ".join(text.split())[:_LONGEST_QUOTE]


class UserFiles:
    """The files of `--config-dir`, to name the one that holds a wrong setting."""

    def __init__(self, directory: Path | None, choices: Iterable[str]) -> None:
        """`choices` are the overrides that choose files. Raises UsageError for a chosen file that cannot be read."""
        self._directory = directory
        self._chosen = ["/".join(re.split(r"@[^=]*=|=", choice)) for choice in choices]
        for name in self._chosen:
            path = (directory or conf_directory()) / f"{name}.yaml"
            try:
                if path.exists():
                    read_text(path, MOST_YAML_BYTES)
            except UnicodeDecodeError as error:
                raise UsageError(f"{path} is not UTF-8 ({error}): save it as that") from error
            except OSError as error:
                raise UsageError(f"{path} cannot be read: {error}") from error

    def source(self) -> str:
        """`"PATH: "` of the chosen file that a wrong setting comes from. Of several, all are named; empty without any.

        A file that `conf/` has too does not count: the built-in one wins.
        """
        paths = []
        for name in self._chosen if self._directory else ():
            path = Path(f"{self._directory}/{name}.yaml")
            if path.exists() and not (conf_directory() / f"{name}.yaml").exists():
                paths.append(str(path))
        return f"{', '.join(paths)}: " if paths else ""

    def compose(self, choices: Sequence[str]) -> DictConfig:
        """The configuration that Hydra composes from `conf/`, this directory and the choices.

        Raises UsageError if Hydra rejects a file, and for a key that is not a setting.
        """
        if self._directory is not None:
            quoted = str(self._directory.resolve()).replace("\\", "\\\\").replace("'", "\\'")
            choices = [*choices, f"hydra.searchpath=['file://{quoted}']"]
        ConfigStore.instance().store(name="schema", node=PLAIN)
        try:
            with initialize_config_dir(str(conf_directory()), version_base="1.3"):
                whole = hydra_compose("sweep", overrides=list(choices), return_hydra_config=True)
        except MissingConfigException as error:
            raise UsageError(self._missing(error)) from error
        except yaml.MarkedYAMLError as error:
            at = f"{error.problem_mark.name}, line {error.problem_mark.line + 1}" if error.problem_mark else "a file"
            raise UsageError(f"{at} is not plain YAML: {error.problem}") from error
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, OSError, UnicodeDecodeError) as error:
            raise UsageError(one_line(str(error))) from error
        self._chosen = [
            "/".join((key.partition("@")[0], str(option))) for key, option in whole.hydra.runtime.choices.items()
        ]
        for key in whole:
            if key not in PLAIN and key != "hydra":
                raise UsageError(self._unknown(key, whole[key]))
        return OmegaConf.masked_copy(whole, list(PLAIN))

    def _missing(self, error: MissingConfigException) -> str:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        names = sorted(_options(group, self._directory))
        file = re.search("In '(.*?)'", str(error))
        at = f"{self._directory}/{file[1]}.yaml: " if file else ""
        return f"{at}defaults: there is no {group}/{name}.yaml{did_you_mean(name, names)}"

    def _unknown(self, key: Any, value: Any) -> str:
        """What is wrong with a key of the configuration that is not a setting."""
        file = next((name for name in self._chosen if name.partition("/")[0] == key), None)
        if file is None:
            shown = (
                f"{key!r}{did_you_mean(key, keys(for_sweep=True))}"
                if isinstance(key, str)
                else f"{key}: a setting has a name"
            )
            return f"{self.source()}unknown key {shown}"
        path = f"{self._directory}/{file}.yaml"
        if isinstance(value, ListConfig):
            return f"{path} is a list: it takes settings, each `key: value`"
        return f"{path}: its settings would be those of '{key}', which has none: begin it with `# @package _global_`"


# A quoted text, or the text between two punctuation marks of Hydra's grammar.
_WORD = re.compile(r"""'[^']*'|"[^"]*"|[^\s,\[\]{}()'"][^,\[\]{}()'"]*""")

# Settings that take several values but are not axes: a sweep does not iterate over them.
LISTS = ("retry", HEAD_DIM)


def split(
    arguments: Sequence[str],
    keys: Collection[str],
    groups: Mapping[str, Sequence[str]],
    impls: Sequence[str] | None = None,
) -> tuple[Values, list[str]]:
    """`(values of settings, overrides that choose files)`. `keys` are all settings, `groups` the files to choose from.

    A glob chooses among `impls`, by default the registered ones. Raises UsageError for an unparsable override, a
    deletion, and an unknown key or group option. Several values for a setting that is not an axis are an error too.
    """
    values = {}
    choices = []
    for argument in arguments:
        name = key_of(argument)
        override = _parse(argument) if name.isascii() and not name.startswith("+") else None
        if override is not None:
            name = override.key_or_group
            if override.is_delete():
                raise UsageError(f"'{argument}': a sweep needs all its settings; give {name} another value instead")
        if override is None or (name not in keys and name not in groups):
            raise UsageError(unknown_key(name, [*keys, *groups]))
        if override.is_sweep_override() and name not in AXES and name not in LISTS:
            raise UsageError(f"{name} takes one value, not several; the axes to sweep are {', '.join(AXES)}")
        if name in AXES or name not in groups:
            values[name] = _values(override, list(IMPLS) if impls is None else impls)
        if name in groups:
            # An axis can be a group of files too (`device`): its first value chooses the file.
            first = str((*flattened(values.get(name)), "")[0])
            option = device_kind(first) if name in AXES else argument.partition("=")[2]
            if option not in groups[name]:
                raise UsageError(f"unknown {name} '{option}'{did_you_mean(option, groups[name])}")
            choices.append(quoted(f"{name}={option}"))
    return values, choices


def check_unrepeated(overrides: Iterable[str]) -> None:
    """Raise UsageError if two overrides set the same key."""
    seen = set()
    for name in filter(None, map(key_of, overrides)):
        if name in seen:
            several = f": give its values in one list, {name}=A,B" if name in AXES else ""
            raise UsageError(f"{name} is given twice{several}")
        seen.add(name)


def key_of(override: str) -> str:
    """The name of the setting that an override sets."""
    return override.partition("=")[0].strip()


def quoted(argument: str) -> str:
    """The override with quotes around each value that contains non-ASCII letters, which Hydra's grammar lacks.

    Existing quotes stay. A value with interpolations, escaped characters or invalid Unicode is left unchanged.
    """
    key, equals, value = argument.partition("=")
    if value.isascii() or "${" in value or "\\" in value or argument.encode(errors="replace").decode() != argument:
        return argument
    return key + equals + _WORD.sub(_quoted_word, value)


def _quoted_word(match: re.Match[str]) -> str:
    word, before = match[0], match.string[: match.start()]
    if word.isascii() or word[0] in "'\"":
        return word
    name, colon, inner = word.partition(":") if before.count("{") > before.count("}") else ("", "", word)
    text = (inner if colon else word).rstrip()
    head = name + colon if colon else ""
    return f"{head}'{text}'{word[len(head) + len(text) :]}"


def _parse(argument: str) -> Override:
    if "=" not in argument and not argument.startswith("~"):
        raise UsageError(f"'{argument}' is not of the form key=value, without spaces")
    try:
        return OverridesParser.create().parse_override(quoted(argument))
    except (HydraException, AttributeError) as error:
        detail = _mistake(argument) or " ".join(str(error).split())
        raise UsageError(f"cannot read '{argument}': {detail}") from error


def _mistake(argument: str) -> str:
    """What is wrong with an unreadable override, if it is a usual mistake."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", argument)
    for opening, closing in ("()", "[]", "{}"):
        if bare.count(opening) != bare.count(closing):
            lacks = closing if bare.count(opening) > bare.count(closing) else opening
            return f"a '{lacks}' is missing; put the whole option in quotes"
    if bare.endswith(","):
        return "write the values without spaces after the commas: impl=A,B"
    if key_of(argument) == "points" and re.search(r"\{[^}]*=", bare):
        return "a point takes ':' after a name: 'points=[{seq_len:512}]'"
    optimized = "Hydra reads no range(…) under `python -O` and PYTHONOPTIMIZE: leave them out, or list the values"
    return "" if __debug__ else optimized


def _values(override: Override, impls: Sequence[str]) -> Any:
    """The override's values as plain Python values.

    Raises UsageError for more than `MOST_VALUES` values, before they fill the memory.
    """
    value = override.value()
    if isinstance(value, IntervalSweep):
        raise UsageError(f"{override.input_line}: an interval has no end of values; use range(start,stop,step)")
    if not override.is_sweep_override() or isinstance(value, Glob):
        return _plain(value, override, impls)
    try:
        items = itertools.islice(override.sweep_iterator(), MOST_VALUES + 1)
        values = [_plain(item, override, impls) for item in items]
    except (HydraException, ValueError, ZeroDivisionError) as error:
        raise UsageError(f"cannot read '{override.input_line}': {error}") from error
    if len(values) > MOST_VALUES:
        raise UsageError(f"{override.key_or_group} has more than {MOST_VALUES:,} values")
    return values


def _plain(value: Any, override: Override, impls: Sequence[str]) -> Any:
    if isinstance(value, Glob):
        chosen = value.filter(list(impls)) if override.key_or_group == "impl" else []
        return any_impl(chosen, str(override.input_line), "".join(value.include[:1]), impls)
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(item, override, impls) for item in value]
    return value
