"""Problem files on the command line: `impl=./43_Problem.py`, and `problem=./43_Problem.py impl=./solution.py`.

Each integer of a file is an axis. Those that have a known meaning are `seq_len`, `d_model`, `num_heads` and
`batch_size`, and are given under either name. Sizes that are not given are those of the file.
"""

import re
from collections.abc import Sequence
from math import lcm
from pathlib import Path

from harness.core.config.key_value_options import present_option
from harness.core.model.errors import UsageError, did_you_mean, notify
from harness.core.model.layer_options import OPTION
from harness.core.model.sweep_axes import present_axis
from harness.core.results.row import TEXT, TrialKind
from harness.core.run.executor import Executor

from .formats import FileAxes, files_of, format_of, problem_at

_SOURCE = "problem-file:"
LOOK = TrialKind(
    {"refusal": TEXT, "warning": TEXT},
    handler="harness.extras.problems.trials.judgement:judge",
    takes=("file", "sizes", "memory_limit"),
)
# The problems that this command has looked at: it may read its overrides several times.
_LOOKED_AT = set[str]()
# What each of these keys takes, once.
_ONCE = {"impl": "one list, impl=A,B", "problem": "one file"}
# A file without a size for one of these axes is measured at this value.
_IF_ABSENT = dict.fromkeys(("seq_len", "d_model", "num_heads", "batch_size"), 1)


def with_problems(overrides: Sequence[str], usual: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The overrides with the names of problem files as layers, and the usual ones with the sizes of the files.

    Raises UsageError for a file that is no problem, and for files whose sizes differ.
    """
    options = [present_option(text) for text in overrides]
    impls = _named_layers(options)
    named = [impl.removeprefix(_SOURCE) for impl in impls if impl.startswith(_SOURCE)]
    if not named:
        return overrides, usual
    files = list(dict.fromkeys(files_of(name)[0] for name in named))
    axes = _axes_of_all(files)
    kept = [_under_its_axis(text, axes) for text in options if text.partition("=")[0] not in _ONCE]
    notify(*(f"{file}: {_in_words(axes) or 'no size to change'}{format_of(file).notice(Path(file))}" for file in files))
    quoted = ",".join("'" + impl.replace("'", "\\'") + "'" for impl in impls)
    # Commands with sizes of their own, and users who give some, do not want those of the file.
    has_sizes = any(text.startswith(("preset", "shape", "head_dim", "points", OPTION, *_IF_ABSENT)) for text in kept)
    of_format = format_of(files[0]).default_overrides(Path(files[0]))
    if usual or has_sizes:
        of_format = [text for text in of_format if not text.startswith("points")]
    options = [*of_format, *kept]
    for file in {*files} - _LOOKED_AT:
        _look(file, axes, options, has_sizes)
    return [*kept, f"impl={quoted}"], [*usual, *of_format, *_usual_sizes(axes, options)]


def _look(file: str, axes: FileAxes, options: Sequence[str], has_sizes: bool) -> None:
    """Say what a trial finds in the output of a problem at the first sizes of the options.

    Raises UsageError if the user gives no sizes, and the problem needs more than half of the memory.
    """
    _LOOKED_AT.add(file)
    stated = dict(reversed(re.findall(r"(\w+)=\[?(\d+)", " ".join(options))))
    sizes = {name: int(stated.get(axis, axes.sizes[axis])) for name, axis in axes.axis_of.items()}
    with Executor(seed=0, trial_s=1.0, timeout_s=10.0) as executor:
        answer = executor.run("look_at_problem", extra={"file": file, "sizes": sizes}).values
    if answer.get("refusal") and not has_sizes:
        raise UsageError(answer["refusal"])
    if warning := answer.get("warning"):
        notify(f"warning: {file}: {warning}")


def _usual_sizes(axes: FileAxes, options: Sequence[str]) -> list[str]:
    """The sizes of the file as overrides, but for those that points, a preset or a shape of the user's have."""
    stated = {text.partition("=")[0]: text for text in options}
    sizes = _IF_ABSENT | axes.sizes
    if "d_model" not in axes.sizes:
        # No width is a multiple of the heads then. This one is no part of the model.
        heads = stated.get("num_heads", f"={sizes['num_heads']}")
        sizes["d_model"] = lcm(*map(int, re.findall(r"\d+", heads)))
    if {"preset", "shape"} & stated.keys():
        return []
    of_points = {present_axis(name) for name in re.findall(r"[{,] *([\w.]+) *:", stated.get("points", ""))}
    return [f"{axis}={sizes[axis]}" for axis in _IF_ABSENT if axis not in of_points]


def _named_layers(options: Sequence[str]) -> list[str]:
    """The layers of the options, with problem files under their names as layers."""
    stated: dict[str, str] = {}
    for text in options:
        key, _, value = text.partition("=")
        if key in stated and key in _ONCE:
            raise UsageError(f"{key} is given twice: give {_ONCE[key]}")
        stated[key] = value.strip("[] ")
    texts = (text.strip(" '\"") for text in stated.get("impl", "").split(","))
    layers = list(filter(None, texts))
    if stated.get("problem"):
        return _with_solutions(stated["problem"].strip("'\""), layers)
    return [_named(layer) for layer in layers]


def _named(layer: str) -> str:
    """The name of a layer that is the path of a problem; any other layer as it is."""
    found = problem_at(Path(layer))
    return f"{_SOURCE}{found[1]}" if found else layer


def _with_solutions(path: str, layers: Sequence[str]) -> list[str]:
    """The problem at a path, the solutions that come with it, and the layers. Files among these are solutions."""
    problem = _named(path)
    file = problem.removeprefix(_SOURCE)
    problem_format = format_of(file)
    solutions, others = problem_format.solutions(Path(file)), []
    for layer in layers:
        if problem_format.is_solution(layer):
            solutions.append(Path(layer))
        else:
            others.append(layer)
    named = (f"{problem}+{solution}" for solution in dict.fromkeys(solutions))
    return [problem, *named, *others]


def _axes_of_all(files: Sequence[str]) -> FileAxes:
    """The sizes of files that agree. Raises UsageError if they do not."""
    axes = [format_of(file).axes(Path(file)) for file in files]
    for file, each in zip(files, axes, strict=True):
        if each != axes[0]:
            raise UsageError(f"{files[0]} and {file} have different sizes: measure each by itself")
    return axes[0]


def _under_its_axis(text: str, axes: FileAxes) -> str:
    """The override `layer.n_embd=64` as `d_model=64`. Raises UsageError for a name that the file lacks."""
    key, _, value = text.partition("=")
    name = key.removeprefix(OPTION)
    if name == key:
        return text
    if name not in axes.axis_of:
        raise UsageError(f"{text}: the problem has no integer '{name}'{did_you_mean(name, axes.axis_of)}")
    axis = axes.axis_of[name]
    return f"{axis}={value}" if axis in _IF_ABSENT else text


def _in_words(axes: FileAxes) -> str:
    """`seq_len = 512, d_model is its n_embd = 768; layer.vocab_size = 50257`."""
    of_sweep, of_file = [], []
    for name, axis in axes.axis_of.items():
        if axis in _IF_ABSENT:
            is_its = "" if name == axis else f" is its {name}"
            of_sweep.append(f"{axis}{is_its} = {axes.sizes[axis]}")
        else:
            of_file.append(f"{OPTION}{name} = {axes.sizes[axis]}")
    return "; ".join(filter(None, (", ".join(of_sweep), ", ".join(of_file))))
