"""The configuration files to choose from, their composition by Hydra, and checks of the user's own (`--config-dir`).

Hydra's errors span several lines, describe its internals and omit the file. Here each error is one line: which setting
is wrong, and what it takes. The user's own files are checked before Hydra reads them, and their errors name the file.
An axis accepts any value until all files are merged, and by then the origin of a wrong value is unknown.
"""

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException, ValidationError

from harness.case import AXES
from harness.config.axes import check_axis, check_points
from harness.config.overrides import key_of, nearest
from harness.config.schema import CHECKS, Launcher, Precision, SweepSchema, check_launcher, check_parts
from harness.errors import UsageError, did_you_mean
from harness.files import MOST_YAML_BYTES, read_text
from harness.former_names import FORMER, present

# `paper=NAME scale=full|cpu`: a published setting, at the published sizes or at sizes for a machine without a GPU.
SCALE, PAPER = "scale", "paper"
# Groups of sizes that the sizes of a paper would replace silently.
_ELSEWHERE = ("shape", "preset")
_SETTINGS = (*AXES, "points")


def scaled(overrides: Sequence[str], directories: Iterable[Path]) -> tuple[list[str], list[str]]:
    """`(overrides without scale, overrides that replace scale for Hydra)`.

    For Hydra, the scales of a paper are the group of files `paper/NAME/`. Users need not know this. Raises UsageError
    for an unknown scale, and for a scale without a paper.
    """
    rest = [override for override in overrides if key_of(override) != SCALE]
    scale, paper = _last(overrides, SCALE), _last(overrides, PAPER)
    if scale is None:
        return rest, []
    if paper in (None, "null"):
        raise UsageError(f"scale={scale} is of a published setting: give paper=NAME too")
    known = sorted({file.stem for directory in directories for file in (directory / PAPER / paper).glob("*.yaml")})
    if known and scale not in known:
        raise UsageError(f"unknown scale '{scale}'{did_you_mean(scale, known)}")
    return rest, [f"{PAPER}/{paper}@_global_={scale}"] if known else []  # an unknown paper is reported elsewhere


def check_paper(given: Any, overrides: Sequence[str]) -> dict[str, Any]:
    """The publication as a dictionary, with the overrides that `changed` its setting; empty without a paper.

    Raises UsageError if the paper's file states no name or another name than its own. Sizes from a shape or a preset
    are an error too.
    """
    asked = _last(overrides, PAPER)
    if asked in (None, "null"):
        return {}
    if not isinstance(given, Mapping) or given.get("name") != asked:
        raise UsageError(
            f"paper={asked}: its file must begin with `# @package _global_`, and have `paper: {{name: {asked}, …}}`"
        )
    for override in overrides:
        if key_of(override) in _ELSEWHERE:
            raise UsageError(f"{override}: paper={asked} has sizes of its own; override those: seq_len=…, d_model=…")
    changed = [override for override in overrides if key_of(override) in _SETTINGS]
    return {**given, "changed": changed} if changed else dict(given)


def _last(overrides: Iterable[str], key: str) -> str | None:
    values = [override.partition("=")[2].strip() for override in overrides if key_of(override) == key]
    return values[-1] if values else None


_ACCEPTED: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list[str]: "a list of texts",
}
_LONGEST_QUOTE = 300


def type_error_message(error: BaseException, overrides: Sequence[str]) -> str:
    """An error of Hydra or OmegaConf in one line: what is wrong, and in which override, if an override is the cause."""
    chain = list(_chain(error))
    found = next((one for one in chain if isinstance(one, OmegaConfBaseException) and one.full_key), None)
    if found is None:
        return "; ".join(dict.fromkeys(_short(str(one)) for one in chain[:2] if str(one))) or type(error).__name__
    key = str(found.full_key)
    given = next((text for text in reversed(overrides) if text.partition("=")[0] == key), key)
    if isinstance(found, MissingMandatoryValue):
        return f"{key} has no value: no file that is chosen says one; give {key}=…"
    wanted = accepted_values(key)
    if isinstance(found, ValidationError) and wanted:
        return f"{_short(given)}: it takes {wanted}"
    return f"{_short(given)}: {_short(str(found).partition('full_key:')[0])}"


def _chain(error: BaseException | None) -> Iterable[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def accepted_values(key: str) -> str | None:
    """What the setting takes, in words; None for an unknown setting, or one that takes any value."""
    hint: Any = SweepSchema
    for part in key.split("."):
        if not is_dataclass(hint) or part not in (field.name for field in fields(hint)):
            return None
        hint = get_type_hints(hint)[part]
    of_none: dict[Any, str] = {
        optional | None: f"{words}, or null" for optional, words in _ACCEPTED.items() if optional is not bool
    }
    return {**_ACCEPTED, **of_none}.get(hint)


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_QUOTE]


_PACKAGE = Path(__file__).resolve().parents[1]
_SWEEPS_ALONE = ("grow", "retry", "launcher", "wait", "points", PAPER)


def conf_directory() -> Path:
    """The location of `conf/`: inside the package if installed from a wheel, beside the package in a checkout."""
    inside = _PACKAGE / "conf"
    return inside if inside.is_dir() else _PACKAGE.parent / "conf"


def keys(for_sweep: bool) -> list[str]:
    """The names of all settings. Those that only a sweep supports, such as `grow`, are included only `for_sweep`."""
    top = [field.name for field in fields(SweepSchema) if field.name not in FORMER]
    top = [name for name in top if for_sweep or name not in _SWEEPS_ALONE]
    parts = {"precision": Precision, **({"launcher": Launcher} if for_sweep else {})}
    top += [SCALE] if for_sweep else []
    return [*top, *(f"{name}.{field.name}" for name, part in parts.items() for field in fields(part))]


def groups(directories: Sequence[Path], for_sweep: bool) -> dict[str, list[str]]:
    """The groups of files to choose from, and the options of each group.

    The first directory defines all groups. Later directories only add options; their other content is ignored.
    """
    first = sorted(path.name for path in directories[0].iterdir() if path.is_dir())
    return {
        group: [file.stem for directory in directories for file in sorted((directory / group).glob("*.yaml"))]
        for group in first
        if for_sweep or group not in _SWEEPS_ALONE
    }


def composed(overrides: list[str], config_dir: Path | None) -> DictConfig:
    """The configuration that Hydra composes from `conf/`, `config_dir` and the overrides.

    Raises UsageError if Hydra rejects a file or an override.
    """
    if config_dir is not None:
        quoted = str(config_dir.resolve()).replace("\\", "\\\\").replace("'", "\\'")
        overrides = [*overrides, f"hydra.searchpath=['file://{quoted}']"]
    ConfigStore.instance().store(name="schema", node=SweepSchema)
    try:
        with initialize_config_dir(str(conf_directory()), version_base="1.3"):
            return _under_present_names(hydra_compose("sweep", overrides=overrides))
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        raise UsageError(type_error_message(error, overrides)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"a file of --config-dir is not UTF-8: {error}") from error


def _under_present_names(config: DictConfig) -> DictConfig:
    """The configuration, in which the values of former names, if set, have replaced those of the present names."""
    for name, value in present({name: config[name] for name in FORMER if config.get(name) is not None}).items():
        OmegaConf.update(config, name, value, merge=False)
    return config


def as_yaml(config: DictConfig) -> str:
    """The configuration as YAML, without former names."""
    return OmegaConf.to_yaml(OmegaConf.masked_copy(config, [str(name) for name in config if name not in FORMER]))


Read = Callable[[Path], tuple[str, DictConfig]]


@dataclass(frozen=True)
class Chosen:
    """A selected file of `group`, and its content.

    `package` is where in the configuration the content goes; empty means the place of the group.
    """

    path: Path
    group: str
    package: str
    held: DictConfig


def chosen_files(directory: Path, overrides: Sequence[str], read: Read) -> Iterator[Chosen]:
    """The selected files of `directory`, which lies beside `conf/`. `read` returns a file's package and its settings.

    Files are selected by the overrides, and by the `defaults` of selected files. Files that also exist in `conf/` are
    skipped: the built-in one wins. Raises UsageError if the `defaults` of a selected file name a missing file.
    """
    asked = dict(_option(override) for override in overrides)
    for key, option in asked.items():
        group, _, package = key.partition("@")
        if (directory / group / f"{option}.yaml").is_file():
            yield from _with_defaults(directory, group, option, package, asked, read)


def _option(override: str) -> tuple[str, str]:
    key, _, option = override.lstrip("+").partition("=")
    return key.strip(), option.strip()


def _with_defaults(
    directory: Path, group: str, option: str, package: str, asked: dict[str, str], read: Read
) -> Iterator[Chosen]:
    path = directory / group / f"{option}.yaml"
    if (conf_directory() / group / f"{option}.yaml").is_file():
        return
    own_package, held = read(path)
    yield Chosen(path, group, package or own_package, held)
    for key, name in _defaults(held):
        inner, _, inner_package = key.partition("@")
        is_group = bool(inner)
        inner = inner.removeprefix("/") if inner.startswith("/") else "/".join(filter(None, (group, inner)))
        if is_group and (f"{inner}@{inner_package}" in asked or inner in asked):
            continue  # the command line overrides this default
        places = [place / inner for place in (directory, conf_directory())]
        known = sorted({file.stem for place in places for file in place.glob("*.yaml")})
        if name not in known:
            raise UsageError(f"{path}: defaults: there is no {inner}/{name}.yaml{did_you_mean(name, known)}")
        if (directory / inner / f"{name}.yaml").is_file():
            yield from _with_defaults(directory, inner, name, inner_package, asked, read)


def _defaults(held: DictConfig) -> Iterator[tuple[str, str]]:
    """Yield `(group, option)` for each entry of a file's list of defaults; the group may be empty.

    Optional and computed entries are skipped: Hydra resolves them.
    """
    listed: Any = OmegaConf.to_container(held, resolve=False).get("defaults")  # type: ignore[union-attr]
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, str) and entry != "_self_" and not {"@", "$"} & set(entry):
            inner, _, option = entry.rpartition("/")
            yield inner, option
        elif isinstance(entry, dict):
            for key, option in entry.items():
                words = str(key).split()
                if isinstance(option, str) and "optional" not in words and "$" not in option:
                    yield words[-1], option


_HEADER = re.compile(r"\A(?:\s*#.*\n)*?\s*#\s*@package\s+(\S+)")
_GLOBAL = "_global_"


def check_user_files(directory: Path, overrides: Sequence[str], asked: Collection[str]) -> None:
    """Raise UsageError for the first selected file in `directory` that is invalid by itself.

    `overrides` select the files. The command line sets the axes in `asked`, so their values in files are not checked.
    """
    for file in chosen_files(directory, overrides, _read):
        try:
            _check(file, asked)
        except UsageError as error:
            raise UsageError(f"{file.path}: {error}") from error


def _read(path: Path) -> tuple[str, DictConfig]:
    """The file's package and its settings. Raises UsageError if the file is not a readable mapping of settings."""
    try:
        text = read_text(path, MOST_YAML_BYTES)
        held = OmegaConf.load(io.StringIO(text))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error}): save it as that") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{path}{line} is no YAML: {error.problem}") from error
    except (yaml.YAMLError, OSError, OmegaConfBaseException) as error:
        raise UsageError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(held, DictConfig):
        raise UsageError(f"{path} is a list: it takes settings, each `key: value`")
    for key in held:
        if not isinstance(key, str):
            raise UsageError(f"{path}: unknown key {key!r}: a setting has a name")
    header = _HEADER.match(text)
    return (header.group(1) if header else ""), held


def _check(file: Chosen, asked: Collection[str]) -> None:
    package = file.package or file.group.replace("/", ".")
    at = "" if package == _GLOBAL else package
    settings = OmegaConf.masked_copy(file.held, [str(key) for key in file.held if key != "defaults"])
    whole = OmegaConf.structured(SweepSchema)
    if at and at.partition(".")[0] not in whole:
        raise UsageError(f"its settings would be those of '{at}', which has none: begin it with `# @package {_GLOBAL}`")
    try:
        OmegaConf.update(whole, at, settings, merge=True) if at else whole.merge_with(settings)
    except OmegaConfBaseException as error:
        raise UsageError(_message(error, settings, at)) from error
    _check_values(whole, at or None, settings, asked)


def _message(error: OmegaConfBaseException, settings: DictConfig, at: str) -> str:
    key = str(error.full_key)
    if isinstance(error, ConfigKeyError):
        return f"unknown key '{key}'{nearest(key, keys(for_sweep=True))}"
    given = OmegaConf.select(settings, key.removeprefix(f"{at}."), throw_on_resolution_failure=False)
    wanted = accepted_values(key)
    if isinstance(error, ValidationError) and wanted:
        return f"{key}={given}: it takes {wanted}"
    return f"{key}: {' '.join(str(error).partition('full_key:')[0].split())}"


def _check_values(whole: DictConfig, at: str | None, settings: DictConfig, asked: Collection[str]) -> None:
    """Check the values that are set, neither missing (`???`) nor interpolated (`${…}`)."""
    given = present({name: value for name, value in _plain(settings).items() if at is None})
    for axis in AXES:
        if axis in given and axis not in asked:
            check_axis(axis, given[axis])
    for name, value in _plain(whole).items():
        if name in given and name in CHECKS:
            CHECKS[name](value)
    if "points" in given:
        check_points(given["points"], {})
    check_parts(_plain(whole.precision))
    check_launcher(Launcher(**_plain(whole.launcher)))


def _plain(settings: DictConfig) -> dict[str, Any]:
    there = [str(key) for key in settings if not OmegaConf.is_missing(settings, key)]
    own = [key for key in there if not OmegaConf.is_interpolation(settings, key)]
    plain = OmegaConf.to_container(OmegaConf.masked_copy(settings, own), resolve=False)
    return {str(key): value for key, value in plain.items()} if isinstance(plain, dict) else {}
