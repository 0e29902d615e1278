"""Which layers a diff touches, for `compare --changed`, and which changed files several layers share."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

# The two values of `--changed`. With `ALL`, every layer is taken as soon as shared code has changed.
TOUCHED, ALL = "touched", "all"
# Properties of a comparison, each a list of names.
LEFT_OUT, SHARED = "left out", "changed shared files"
# Files that no import names, and that may change every layer.
_PROJECT_FILES = (
    *("pyproject.toml", "setup.py", "setup.cfg", "*constraints*.txt", "*requirements*.txt", "*.lock"),
    *("environment*.y*ml", "*.c", "*.cc", "*.cpp", "*.cu", "*.h", "*.hpp", "*.cuh", "*.pyx", "*.so", "CMakeLists.txt"),
)


@dataclass(frozen=True)
class LayerFiles:
    """Files of a layer: the one that defines its class, and all files that its module imports. Relative to the top."""

    defining: frozenset[str]
    imported: frozenset[str]

    @classmethod
    def of(cls, described: Iterable[tuple[Mapping[str, Any], Path]]) -> "LayerFiles":
        """The files in the descriptions of both sides, each with the top of its checkout."""
        defining, imported = set(), set()
        for values, top in described:
            defining |= set(_below(top, [values["file"]] if values["file"] else []))
            imported |= set(_below(top, values.get("imports") or []))
        return cls(frozenset(defining), frozenset(defining | imported))


def _below(top: Path, files: Iterable[str]) -> Iterator[str]:
    for file in files:
        resolved = Path(file).resolve()
        if resolved.is_relative_to(top.resolve()):
            yield resolved.relative_to(top.resolve()).as_posix()


@dataclass(frozen=True)
class TouchedLayers:
    """The layers that a diff touches, those it does not touch, and changed files that may affect several layers."""

    taken: tuple[str, ...]
    left_out: tuple[str, ...]
    shared: tuple[str, ...]

    @property
    def properties(self) -> dict[str, str]:
        """What to store about the choice."""
        return {name: ", ".join(held) for name, held in ((LEFT_OUT, self.left_out), (SHARED, self.shared)) if held}


def touched_layers(layers: Mapping[str, LayerFiles], changed: Collection[str], mode: str) -> TouchedLayers:
    """Choose the layers whose files are among the `changed` ones.

    A changed file touches the layers that it defines. If only one layer imports it, it touches that layer too. Any
    other file that layers import is shared, as are files that build or configure the whole project.
    """
    touched, shared = set[str](), []
    for file in sorted(changed):
        importing = {name for name, files in layers.items() if file in files.imported}
        defined = {name for name in importing if file in layers[name].defining}
        touched |= importing if len(importing) == 1 else defined
        is_of_all = any(fnmatch(Path(file).name, pattern) for pattern in _PROJECT_FILES)
        # Layers that the file itself defines are touched already. Only others may be affected without being measured.
        if is_of_all or (len(importing) > 1 and importing != defined):
            shared.append(file)
    if mode == ALL and shared:
        touched = set(layers)
    taken = tuple(name for name in layers if name in touched)
    return TouchedLayers(taken, tuple(name for name in layers if name not in touched), tuple(shared))


def choice_sentences(properties: Mapping[str, str], ref: str | None, mode: str | None) -> Iterator[str]:
    """Sentences about what `--changed` left out, and about shared code."""
    if LEFT_OUT in properties:
        yield f"Left out, because the changes since {ref} touch none of their own files: {properties[LEFT_OUT]}."
    if SHARED in properties:
        what = "every layer is measured" if mode == ALL else "any layer may be affected, and --changed=all measures all"
        yield f"Shared code changed ({properties[SHARED]}): {what}."
