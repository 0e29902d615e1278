"""Problem files on the command line: `impl=./43_Problem.py`, and `problem=./43_Problem.py impl=./solution.py`.

Each integer of a file is an axis. Those that have a known meaning are `seq_len`, `d_model`, `num_heads` and
`batch_size`, and are given under either name. Sizes that are not given are those of the file.
"""

import re
from collections.abc import Iterator, Sequence
from math import lcm
from pathlib import Path

from harness.core.config.key_value_options import present_option
from harness.core.model.errors import UsageError, did_you_mean, notify
from harness.core.model.layer_options import OPTION

from . import definition_file
from .problem_file import files_of
from .sizes import AXIS_OF, integers, names_in, read_tree

_SOURCE = "problem-file:"
# A file without an integer for one of these axes is measured at this value.
_IF_ABSENT = {"seq_len": 1, "d_model": 1, "num_heads": 1, "batch_size": 1}


def with_problems(overrides: Sequence[str], usual: Sequence[str]) -> tuple[list[str], list[str]]:
    """The overrides with the names of problem files as layers, and the usual ones with the sizes of the files.

    Raises UsageError for a file that is no problem, and for files whose sizes differ.
    """
    options = [present_option(text) for text in overrides]
    impls = _named_layers(options)
    files = dict.fromkeys(files_of(impl.removeprefix(_SOURCE))[0] for impl in impls if impl.startswith(_SOURCE))
    if not files:
        return list(overrides), list(usual)
    axis_of, sizes = _sizes_of_all(list(files))
    kept = [_under_its_axis(text, axis_of) for text in options if text.partition("=")[0] not in ("impl", "problem")]
    notify(*(f"{file}: {_in_words(axis_of, sizes)}{_assumed(file)}" for file in files))
    stated = {text.partition("=")[0]: text for text in kept}
    if "d_model" not in axis_of.values():
        # No width is a multiple of the heads then. This one is no part of the model.
        heads = stated.get("num_heads", f"={sizes['num_heads']}")
        sizes["d_model"] = lcm(*map(int, re.findall(r"\d+", heads)))
    if (file := next(iter(files))).endswith(".json"):
        usual = [*usual, f"dtype={definition_file.read_definition(Path(file)).dtype}", "mode=forward"]
    # The sizes of points, of a preset and of a shape are the user's.
    elsewhere = " ".join(stated.get(key, "") for key in ("points", "preset", "shape"))
    of_file = [axis for axis in _IF_ABSENT if axis not in elsewhere and not re.search("preset|shape", elsewhere)]
    quoted = ",".join("'" + impl.replace("'", "\\'") + "'" for impl in impls)
    return [*kept, f"impl={quoted}"], [*usual, *(f"{axis}={sizes[axis]}" for axis in of_file)]


def _named_layers(options: Sequence[str]) -> list[str]:
    """The layers of the options, with problem files under their names as layers."""
    stated: dict[str, str] = {}
    for text in options:
        key, _, value = text.partition("=")
        if key in stated and key in ("impl", "problem"):
            raise UsageError(f"{key} is given twice: give one list, {key}=A,B")
        stated[key] = value.strip("[] ")
    layers = [layer.strip(" '\"") for layer in stated.get("impl", "").split(",")]
    if "problem" in stated:
        return _with_solutions(stated["problem"].strip("'\""), [layer for layer in layers if layer])
    return [f"{_SOURCE}{layer}" if _is_problem(layer) else layer for layer in layers]


def _is_problem(layer: str) -> bool:
    """Whether the name of a layer is a file that holds a problem."""
    path = Path(layer)
    is_module = path.suffix == ".py" and path.is_file() and {"Model", "get_inputs"} <= names_in(read_tree(path))
    return is_module or definition_file.is_definition(path)


def _with_solutions(problem: str, solutions: Sequence[str]) -> list[str]:
    """The layers of a problem and of its solutions. A file that has `ModelNew` too is its own solution."""
    if definition_file.is_definition(Path(problem)):
        return [f"{_SOURCE}{problem}", *(_of_definition(problem, solution) for solution in solutions)]
    names = names_in(read_tree(Path(problem)))
    if not {"Model", "get_inputs"} <= names:
        raise UsageError(
            f"problem={problem}: a problem has a class Model and a function get_inputs{_what_it_has(names)}"
        )
    own = [problem] if "ModelNew" in names else []
    return [f"{_SOURCE}{problem}", *(_of_solution(problem, solution) for solution in [*own, *solutions])]


def _what_it_has(names: set[str]) -> str:
    return f", and this file has {', '.join(sorted(names))}" if names else ""


def _of_definition(problem: str, solution: str) -> str:
    """The layer that solves a definition. A layer that is no file is measured as it is."""
    if not solution.endswith(".json"):
        return solution
    definition_file.read_solution(Path(solution))
    return f"{_SOURCE}{problem}+{solution}"


def _of_solution(problem: str, solution: str) -> str:
    """The layer that solves a problem. A layer that is no file is measured as it is."""
    if not solution.endswith(".py"):
        return solution
    names = names_in(read_tree(Path(solution)))
    if names.isdisjoint(("ModelNew", "Model")):
        raise UsageError(f"impl={solution}: a solution has a class ModelNew or Model{_what_it_has(names)}")
    return f"{_SOURCE}{problem}+{solution}"


def _sizes_of_all(files: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    """`({name in the file: axis}, {axis: size})` of files that agree. Raises UsageError if they do not."""
    names, sizes = axes_of_file(files[0])
    for file in files[1:]:
        if axes_of_file(file) != (names, sizes):
            raise UsageError(f"{files[0]} and {file} have other integers: measure each by itself")
    return names, sizes


def axes_of_file(file: str) -> tuple[dict[str, str], dict[str, int]]:
    """`({name in the file: axis}, {axis: size})` of one problem file. An axis of its own is its name."""
    if file.endswith(".json"):
        names, sizes = definition_file.axes_of_definition(Path(file))
        return names, _IF_ABSENT | sizes
    stated = integers(read_tree(Path(file)))
    axes = {axis: name for name, axis in reversed(AXIS_OF.items()) if name in stated}
    names = {name: name for name in stated} | {name: axis for axis, name in axes.items()}
    return names, _IF_ABSENT | {names[name]: value for name, value in stated.items()}


def _under_its_axis(text: str, names: dict[str, str]) -> str:
    """The override `layer.n_embd=64` as `d_model=64`. Raises UsageError for a name that the file lacks."""
    key, _, value = text.partition("=")
    name = key.removeprefix(OPTION)
    if not key.startswith(OPTION):
        return text
    if name not in names:
        raise UsageError(f"{text}: the problem has no integer '{name}'{did_you_mean(name, names)}")
    return f"{names[name]}={value}" if names[name] in _IF_ABSENT else text


def _assumed(file: str) -> str:
    return definition_file.assumed(Path(file)) if file.endswith(".json") else ""


def _in_words(names: dict[str, str], sizes: dict[str, int]) -> str:
    """`seq_len = sequence_length = 512, d_model = n_embd = 768; axes of its own: layer.vocab_size = 50257`."""
    return "; ".join(filter(None, (", ".join(_known(names, sizes)), ", ".join(_own(names, sizes)))))


def _known(names: dict[str, str], sizes: dict[str, int]) -> Iterator[str]:
    for name, axis in names.items():
        if axis in _IF_ABSENT:
            yield f"{axis} is its {name} = {sizes[axis]}" if name != axis else f"{axis} = {sizes[axis]}"


def _own(names: dict[str, str], sizes: dict[str, int]) -> Iterator[str]:
    for name, axis in names.items():
        if axis not in _IF_ABSENT:
            yield f"{OPTION}{name} = {sizes[axis]}"
