"""Export one or two cases of a run as a script for an issue, or the layer of a case as a problem.

The script has the layers, sizes, a check and a timer. It imports the project's layers, and holds the user's own files.
A comment holds the measured figures.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness import __version__
from harness.core.config.machine import part
from harness.core.layers.layer_lookup import source_of
from harness.core.model import formatting, own_axes
from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.layer_options import NO_OPTIONS, OPTION, options_of
from harness.core.model.sweep_axes import AXES, DEFAULTS, LETTERS, Case, device_kind, present_axis
from harness.core.results.columns import CaseResult
from harness.core.results.stored_run import StoredRun
from harness.core.run.executor import short_executor
from harness.extras import Exported
from harness.study.complete_lines import with_ratio_to

from . import script_parts

# What two cases of one script may differ in: the rest of the script is of both.
_OF_A_SIDE = ("impl", "num_heads", "num_kv_heads", "options")
# Names that every script uses itself.
_NAMES = ("torch", "Timer", "N", "DTYPE", "DEVICE", "SIDES", "causal", "call_of", "results")
_NAMES_OF_LAYERS = ("B", "D", "KEYWORDS")
# The most scores of a reference in float64, 256 MiB, and an error at a large n that rounding explains.
_MOST_SCORES, _ROUNDED_AT_N = 2**25, 1e-3
_VALUES = {value for axis in AXES.values() for value in axis.values}


def export_cases(stored: StoredRun, lines: Sequence[CaseResult]) -> Exported:
    """The script of one case, or of two that differ in the layer.

    Trials tell how the layers are called. Raises UsageError if no script can hold the case.
    """
    if len(lines) > 2:
        raise UsageError("a script compares two cases: give --case at most twice")
    _check(lines)
    described = _described([line.case for line in lines])
    if len(lines) == 2 and (reason := script_parts.differing(described)):
        raise UsageError(reason)
    # Whoever runs the script may have one GPU.
    lines = [replace(line, device=device_kind(line.device)) for line in lines]
    return Exported(_text(stored, lines, described).encode(), len(lines))


def _described(cases: Iterable[Case]) -> list[script_parts.Description]:
    """How trials call the layers. Raises UsageError for a case that cannot run."""
    described: list[script_parts.Description] = []
    with short_executor() as executor:
        for case in cases:
            outcome = executor.ask("describe_call", case)
            if not outcome.ok:
                raise UsageError(f"{case.impl} cannot be exported: {outcome.reason}")
            described.append(outcome.values)
    return described


def export_problem(stored: StoredRun, lines: Sequence[CaseResult]) -> Exported:
    """The problem file of KernelBench of a case, whose sizes are its integers.

    Its text imports the layer, and calls it with x (b, n, d). Raises UsageError for several cases, and for a layer that
    takes more than x.
    """
    return _problem(lines, "problem.py.jinja")


def export_definition(stored: StoredRun, lines: Sequence[CaseResult]) -> Exported:
    """The definition of FlashInfer Trace of a case, in which only the batch and the length vary.

    Raises UsageError as `export_problem` does, and for a layer that is not known to have no weights.
    """
    line = lines[0]
    if line.weights_bytes is None:
        raise UsageError(f"the run does not know whether {line.impl} has weights: give --format kernelbench")
    if line.weights_bytes:
        raise UsageError(f"{line.impl} has weights, and a definition has none: give --format kernelbench")
    return _problem(lines, "definition.json.jinja")


def _problem(lines: Sequence[CaseResult], template: str) -> Exported:
    line, *more = lines
    if more:
        raise UsageError("a problem has one case: give --case once")
    (call,) = _described([replace(line.case, mode="forward", device="cpu")])
    layer, has_source = call["layer"], call["inputs"] is not None or call["source_len"]
    refusals = {
        "a problem has no mode=decode": line.mode == "decode",
        "it takes other inputs than one x": has_source,
        "its mask is a tensor, which no problem has: give mask=none": "attn_mask" in layer["keywords"],
    }
    for reason, holds in refusals.items():
        if holds:
            raise UsageError(f"{line.case} cannot be exported: {reason}")
    place, _, name = layer["target"].rpartition(":")
    notices = {
        f"{line.case} is {line.status} in this run: {line.reason}": line.status != "ok",
        f"the file imports {place}, which must be found where the file is used": not place.startswith("impls."),
        "every call of the file includes `prepare`, and no call of the run does: their costs differ": layer["prepares"],
    }
    templates = Environment(loader=PackageLoader("harness.extras.export"), trim_blocks=True, lstrip_blocks=True)
    text = templates.get_template(template).render(line=line, place=place, name=name, call=call, **layer)
    return Exported(text.encode() + b"\n", 1, [notice for notice, holds in notices.items() if holds])


def chosen(stored: StoredRun, text: str) -> CaseResult:
    """The only case that `text` describes: a layer, or a part of its name, and words as in the names of cases.

    An empty text describes every case that can run. Raises UsageError, with the cases that fit, for none or several.
    """
    words = text.split()
    lines = [line for line in stored.lines if text or line.status != "unsupported"]
    if not lines:
        raise UsageError(f"{stored.path} has no case that can run, and so none to export")
    _check_keys(words, lines)
    layers = {line.impl for line in lines}
    fitting = [line for line in lines if all(_fits(line, word, layers) for word in words)]
    usual = [line for line in fitting if _is_usual(line, fitting, words)]
    if len(fitting) == 1 or len(usual) == 1:
        return (usual or fitting)[0]
    if not fitting:
        unknown = [
            word for word in words if not ("=" in word or word in _VALUES or any(word in layer for layer in layers))
        ]
        near = did_you_mean(unknown[0], sorted(layers)) if unknown else ""
        raise UsageError(f"no case of {stored.path} is '{text}'{near or ': it has ' + _listed(lines)}")
    described = f"{stored.path} has {len(fitting)} cases" + f" that '{text}' describes" * bool(text)
    raise UsageError(f"{described}: choose one, as by \"--case '{fitting[0]}'\", of {_listed(fitting)}")


def _fits(line: CaseResult, word: str, layers: Collection[str]) -> bool:
    name, equals, value = word.partition("=")
    if not equals or word == line.options:
        whole = {layer for layer in layers if word in (layer, layer.rpartition(":")[2])}
        is_part = line.impl in whole if whole else word in line.impl and word not in _VALUES
        return is_part or any(getattr(line, axis) == word for axis in AXES)
    axis = present_axis(name)
    return str(getattr(line, axis)) == value if axis in AXES else word.removeprefix(OPTION) in _options(line).split("+")


def _options(line: CaseResult) -> str:
    return own_axes.stated_options(line.own_axes, line.options)


def _check_keys(words: Iterable[str], lines: Iterable[CaseResult]) -> None:
    options = list(dict.fromkeys(name for line in lines for name in options_of(_options(line))))
    for word in words:
        name = word.removeprefix(OPTION).partition("=")[0]
        if "=" in word and present_axis(name) not in AXES and name not in options:
            raise UsageError(f"--case has no key '{name}'{did_you_mean(name, [*options, *AXES, *LETTERS])}")


def _is_usual(line: CaseResult, fitting: Sequence[CaseResult], words: Sequence[str]) -> bool:
    """Whether the line has the default of each axis along which the others vary, except of axes in `words`.

    The name of a case leaves defaults out.
    """
    names = (present_axis(word.removeprefix(OPTION).partition("=")[0]) for word in words if "=" in word)
    named = {name if name in AXES else "options" for name in names}
    varied = [axis for axis in AXES if len({getattr(other, axis) for other in fitting}) > 1 and axis not in named]
    return all(getattr(line.case, axis) == DEFAULTS.get(axis) or str(getattr(line, axis)) in words for axis in varied)


def _listed(lines: Sequence[CaseResult]) -> str:
    return formatting.listed([f"'{line.case}'" for line in lines], "case")


def _check(lines: Sequence[CaseResult]) -> None:
    """Raise UsageError with the reason if the script cannot hold these cases."""
    first, *further = lines
    for other in further:
        for axis in AXES:
            if axis not in _OF_A_SIDE and getattr(first, axis) != getattr(other, axis):
                raise UsageError(f"both cases of a script have the same sizes and setting: these differ in {axis}")
        if first.case == other.case:
            raise UsageError("both cases are the same one: a script compares two layers")
    for line in lines:
        if line.status == "unsupported":
            raise UsageError(f"{line.case} cannot run: {line.reason}")
        if source_of(line.impl):
            raise UsageError(f"{line.impl} is a file that runs by itself: there is no script of it")


def _text(stored: StoredRun, lines: Sequence[CaseResult], described: Sequence[script_parts.Description]) -> str:
    names = _side_names(lines)
    built = {name: side["layer"] for name, side in zip(names, described, strict=True)}
    truths = _truths({name: side["reference"] for name, side in zip(names, described, strict=True)}, built)
    first = next((side for side in described if side["inputs"] is not None), described[0])
    inputs = first["inputs"]
    targets = [target for side in built.values() for target in (side["target"], *side["inside"])]
    targets += [described_input["fill"] for described_input in inputs or () if ":" in described_input["fill"]]
    names_in_script = [*_NAMES, *(_NAMES_OF_LAYERS if inputs is None else script_parts.NAMES_OF_FUNCTIONS)]
    names_in_script += [described_input["name"] for described_input in inputs or ()]
    modules = dict(chain.from_iterable(side["modules"].items() for side in described))
    source = script_parts.source_of(targets, modules, names_in_script)
    checks = _checked_lengths(lines, described)
    script = script_parts.Script(lines[0].case, names, built, source, truths, first, checks)
    of_functions = script_parts.function_parts(script) if inputs is not None else {}
    doubts = {name: _doubt(line) for name, line in zip(names, lines, strict=True)}
    last_words = [f"Do not quote {name}, which is {doubt}" for name, doubt in doubts.items() if doubt]
    title, comments = _header(stored, lines, source)
    environment = Environment(
        loader=PackageLoader("harness.extras.export"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["repr"] = repr
    template = environment.get_template("script.py.jinja")
    return template.render(script=script, title=title, comments=comments, last_words=last_words, **of_functions)


def _doubt(line: CaseResult) -> str:
    """Why the time of a case may not be quoted; empty if nothing is wrong with it."""
    wrong = f"incorrect: {line.reason}" if line.status == "incorrect" else ""
    return formatting.printable(f"suspect: {line.suspect}" if line.suspect else wrong)


def _truths(references: Mapping[str, Any], built: dict[str, Any]) -> dict[str, str]:
    """The name of what is right in float64 for each side: a reference, which is added to `built`, or the side itself.

    Sides with equal references share it.
    """
    first, *further = references.values()
    shared = all(other == first for other in further)
    names = {
        name: script_parts.REFERENCE if shared else f"{script_parts.REFERENCE} of {name}"
        for name, reference in references.items()
        if reference is not None
    }
    built.update({names[name]: references[name] for name in names})
    return {name: names.get(name, name) for name in references}


def _checked_lengths(lines: Sequence[CaseResult], described: Sequence[script_parts.Description]) -> dict[int, float]:
    """The lengths at which the script checks its sides, each with the largest relative error that it allows.

    They are the small length of verification and n, where twice the error that the run measured is allowed. A
    reference may hold all scores, which are too many at a large n.
    """
    case, (first, *_) = lines[0].case, described
    trains = case.trains
    limit = max(side["gradient_tolerance" if trains else "tolerance"] for side in described)
    checks = {first["small_len"]: limit}
    queries = case.batch_size * case.num_heads * case.seq_len
    if first["inputs"] is not None:
        queries = math.prod(first["inputs"][0]["sizes"][0][:-1])
    scores = queries * (case.kv_len or case.seq_len) if any(side["reference"] for side in described) else 0
    if case.seq_len not in checks and scores <= _MOST_SCORES:
        errors = (max(line.output_error or 0.0, line.gradient_error or 0.0) for line in lines if line.status == "ok")
        checks[case.seq_len] = max(limit, _ROUNDED_AT_N, *(2 * error for error in errors))
    return checks


def _side_names(lines: Sequence[CaseResult]) -> list[str]:
    """The layer of each side, or the layer and what differs: `layer h=4 window=64`."""
    impls = [line.impl for line in lines]
    if len(set(impls)) == len(impls):
        return impls
    words = [[f"h={line.num_heads}", f"g={line.num_kv_heads}", *_options(line).split("+")] for line in lines]
    common = {*words[0]}.intersection(*words) | {NO_OPTIONS}
    return [" ".join([impls[0], *(word for word in of_side if word not in common)]) for of_side in words]


def _header(stored: StoredRun, lines: Sequence[CaseResult], source: script_parts.ScriptSource) -> tuple[str, list[str]]:
    """The docstring of the script, and the comments below it."""
    needs = ", ".join(["torch", *source.packages]) + ", and what its own modules import" * bool(source.modules)
    # Where the options differ, names contain defaults too.
    differ = len({line.options for line in lines}) > 1
    names = [str(replace(line.case, options=_options(line)) if differ else line.case) for line in lines]
    machine = stored.machine
    cpu, torch = part(machine, "cpu"), part(machine, "torch")
    versions = [
        f"torch {torch['version']}" if torch.get("version") else "",
        *(f"{name} {version}" for name, version in part(machine, "packages").items()),
        f"Python {machine['python']}" if machine.get("python") else "",
        (torch.get("gpu") if lines[0].device == "cuda" else cpu.get("model")) or "",
        formatting.counted(lines[0].threads, "thread"),
        machine.get("kernel") or "",
    ]
    comments = [
        *map(_measured, names, lines),
        *_ratio(lines),
        f"By attn-harness {__version__}: {', '.join(filter(None, versions))}.",
        "This script measures worse than that: it is one process without rounds, intervals or a check of the machine.",
        "Six runs of one script gave ratios of 0.92 to 0.95, and six sweeps 0.89 to 0.93: repeats hide its bias.",
    ]
    quoted = formatting.printable(" and ".join(names)).replace("\\", "/").replace('"', "'")
    return f"{quoted}. Needs {needs}.", comments


def _measured(name: str, line: CaseResult) -> str:
    """What the run found of the case with this name, in a line."""
    figures = [
        f"{line.status}: {formatting.printable(line.reason or '')}" if line.status != "ok" else "",
        _doubt(line) if line.suspect else "",
        f"prepare takes {formatting.seconds(line.prepare_s)}" if line.prepare_s else "",
        _time(line),
        formatting.if_known(line.flops, "{:,} FLOPs".format),
        f"peak {formatting.size(line.peak_bytes)}" if line.peak_bytes is not None else "",
        line.backend or "",
    ]
    return f"{name}: {', '.join(filter(None, figures)) or 'not measured'}"


def _time(line: CaseResult) -> str:
    if line.time_s is None:
        return ""
    interval = ""
    if line.time_lo_s is not None and line.time_hi_s is not None and math.isfinite(line.time_hi_s):
        interval = f" (95 % interval {formatting.seconds_range(line.time_lo_s, line.time_hi_s)})"
    return f"{formatting.seconds(line.time_s)}{interval} in {formatting.counted(line.trials, 'trial')}"


def _ratio(lines: Sequence[CaseResult]) -> list[str]:
    """The ratio of both times, with its interval as of independent times."""
    if len(lines) != 2 or not all(line.time_s for line in lines) or any(map(_doubt, lines)):
        return []
    compared = with_ratio_to(*lines)
    ends = [formatting.three(end) for end in (compared.ratio_lo, compared.ratio_hi) if end is not None]
    interval = f" (95 % interval {' – '.join(ends)})" * (len(ends) == 2)
    return [f"The first takes {formatting.three(compared.ratio or 0.0)} times as long as the second{interval}."]
