"""Problem files on the command line: `impl=./43_Problem.py`, and `problem=./43_Problem.py impl=./solution.py`.

Each integer of a file is an axis. Those that have a known meaning are `seq_len`, `d_model`, `num_heads` and
`batch_size`, and are given under either name. Sizes that are not given are those of the file.
"""

from collections.abc import Iterator, Sequence
from math import lcm
from pathlib import Path

from harness.core.model.errors import UsageError, did_you_mean, notify
from harness.core.model.layer_options import OPTION

from . import definition_file
from .sizes import AXIS_OF, integers, names_in, read_tree

_SOURCE = "problem:"
# A file without an integer for one of these axes is measured at this value.
_WITHOUT = {"seq_len": 1, "d_model": 1, "num_heads": 1, "batch_size": 1}


def with_problems(overrides: Sequence[str], usual: Sequence[str]) -> tuple[list[str], list[str]]:
    """The overrides with the names of problem files as layers, and the usual ones with the sizes of the files.

    Raises UsageError for a file that is no problem, and for files whose sizes differ.
    """
    values = {key: value for key, _, value in (text.partition("=") for text in overrides)}
    layers = [layer.strip(" '\"") for layer in values.get("impl", "").strip("[]").split(",")]
    problem = values.get("problem")
    if problem is not None:
        impls = _beside(problem, [layer for layer in layers if layer])
    else:
        impls = [f"{_SOURCE}{layer}" if _is_problem(layer) else layer for layer in layers]
    files = dict.fromkeys(impl.removeprefix(_SOURCE).partition("+")[0] for impl in impls if impl.startswith(_SOURCE))
    if not files:
        return list(overrides), list(usual)
    names, sizes = _sizes_of_all(list(files))
    kept = [_under_its_axis(text, names) for text in overrides if text.partition("=")[0] not in ("impl", "problem")]
    notify(*(f"{file}: {_in_words(names, sizes)}{_assumed(file)}" for file in files))
    if (file := next(iter(files))).endswith(".json"):
        usual = [*usual, f"dtype={definition_file.read_definition(Path(file)).dtype}"]
    quoted = ",".join(f"'{impl}'" for impl in impls)
    if "d_model" not in names.values():
        # No width is a multiple of the heads then. This one is no part of the model.
        heads = values.get("num_heads", str(sizes["num_heads"])).strip("[]").split(",")
        sizes["d_model"] = lcm(*(int(text) for text in heads if text.strip().isdigit()))
    return [*kept, f"impl={quoted}"], [*usual, *(f"{axis}={size}" for axis, size in sizes.items() if axis in _WITHOUT)]


def _is_problem(layer: str) -> bool:
    """Whether the name of a layer is a file that holds a problem."""
    path = Path(layer)
    is_module = path.suffix == ".py" and path.is_file() and "get_inputs" in names_in(read_tree(path))
    return is_module or definition_file.is_definition(path)


def _beside(problem: str, solutions: Sequence[str]) -> list[str]:
    """The layers of a problem and of its solutions. A file that has `ModelNew` too is its own solution."""
    if definition_file.is_definition(Path(problem)):
        return [f"{_SOURCE}{problem}", *(_of_definition(problem, solution) for solution in solutions)]
    names = names_in(read_tree(Path(problem)))
    if not {"Model", "get_inputs"} <= names:
        raise UsageError(f"problem={problem}: a problem has a class Model and a function get_inputs{_instead(names)}")
    own = [problem] if "ModelNew" in names else []
    return [f"{_SOURCE}{problem}", *(_of_solution(problem, solution) for solution in [*own, *solutions])]


def _instead(names: set[str]) -> str:
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
        raise UsageError(f"impl={solution}: a solution has a class ModelNew or Model{_instead(names)}")
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
        return names, _WITHOUT | sizes
    stated = integers(read_tree(Path(file)))
    axes = {axis: name for name, axis in reversed(AXIS_OF.items()) if name in stated}
    names = {name: name for name in stated} | {name: axis for axis, name in axes.items()}
    return names, _WITHOUT | {names[name]: value for name, value in stated.items()}


def _under_its_axis(text: str, names: dict[str, str]) -> str:
    """The override `layer.n_embd=64` as `d_model=64`. Raises UsageError for a name that the file lacks."""
    key, _, value = text.partition("=")
    name = key.removeprefix(OPTION)
    if not key.startswith(OPTION):
        return text
    if name not in names:
        raise UsageError(f"{text}: the problem has no integer '{name}'{did_you_mean(name, names)}")
    return f"{names[name]}={value}" if names[name] in _WITHOUT else text


def _assumed(file: str) -> str:
    return definition_file.assumed(Path(file)) if file.endswith(".json") else ""


def _in_words(names: dict[str, str], sizes: dict[str, int]) -> str:
    """`seq_len = sequence_length = 512, d_model = n_embd = 768; axes of its own: layer.vocab_size = 50257`."""
    return "; ".join(filter(None, (", ".join(_known(names, sizes)), ", ".join(_own(names, sizes)))))


def _known(names: dict[str, str], sizes: dict[str, int]) -> Iterator[str]:
    for name, axis in names.items():
        if axis in _WITHOUT:
            yield f"{axis} is its {name} = {sizes[axis]}" if name != axis else f"{axis} = {sizes[axis]}"


def _own(names: dict[str, str], sizes: dict[str, int]) -> Iterator[str]:
    for name, axis in names.items():
        if axis not in _WITHOUT:
            yield f"{OPTION}{name} = {sizes[axis]}"
