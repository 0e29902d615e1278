"""Select files of a directory beside `conf/`: by the command line, and by the `defaults` of selected files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from harness.config.files import conf_directory
from harness.errors import UsageError, did_you_mean

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


def chosen(directory: Path, overrides: Sequence[str], read: Read) -> Iterator[Chosen]:
    """The selected files of `directory`. `read` returns a file's package and its settings.

    Files that also exist in `conf/` are skipped: the built-in one wins. Raises UsageError if the `defaults` of a
    selected file name a missing file.
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
