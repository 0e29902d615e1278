"""Export one or two cases of a run as a script for an issue: the layers' source, sizes, a check and a timer.

The script needs torch alone, and whatever packages a layer imports itself. A comment holds the measured figures.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness import __version__, formatting
from harness.analysis.complete_lines import with_ratio_to
from harness.errors import UsageError, did_you_mean
from harness.export_formats import Exported
from harness.inlined_source import InlinedSource, inline
from harness.layer_options import options_of
from harness.machine import part
from harness.measure.executor import Executor
from harness.results.columns import CaseResult
from harness.results.stored_run import StoredRun
from harness.sweep_axes import AXES, DEFAULTS, LETTERS, Case, present_axis
from impls.registry import IMPLS

# What two cases of one script may differ in: the rest of the script is of both.
_OF_A_SIDE = ("impl", "num_heads", "num_kv_heads")
_REFERENCE = "reference"
# Names that the script itself uses.
_NAMES = (
    "torch",
    "Timer",
    "B",
    "N",
    "D",
    "DTYPE",
    "DEVICE",
    "SIDES",
    "KEYWORDS",
    "WEIGHTS",
    "causal",
    "call_of",
    "results",
)
_METHODS = {"decode": ("forward", "start", "step", "prefill")}
# An error that lists cases names at most this many.
_MOST_LISTED = 6


def export_script(stored: StoredRun, wanted: Sequence[str], executor: Executor) -> Exported:
    """The script of one case, or of two that differ in the layer. `wanted` describes each: see `chosen`.

    Without a second case, the layer that the run's times relate to is the other side, if the run has one. Raises
    UsageError if no script can hold the case.
    """
    if len(wanted) > 2:
        raise UsageError("a script compares two cases: give --case at most twice")
    lines = [chosen(stored, text) for text in wanted] or [chosen(stored, "")]
    if len(lines) == 1:
        baseline = stored.config.get("baseline")
        lines += [
            one
            for one in stored.lines
            if one.impl == baseline != lines[0].impl and not _differing(one.case, lines[0].case)
        ][:1]
    _check(lines)
    described = [_described(line.case, executor) for line in lines]
    return Exported(_text(stored, lines, described).encode(), len(lines), _notices(lines))


def chosen(stored: StoredRun, text: str) -> CaseResult:
    """The only case that `text` describes: a layer and `key=value` words, as in the names of cases.

    Raises UsageError, with the cases that it describes, for none or several.
    """
    words = text.split()
    _check_keys(words, stored.lines)
    fitting = [line for line in stored.lines if all(_fits(line, word) for word in words)]
    usual = [line for line in fitting if _is_usual(line, fitting, words)]
    if len(fitting) == 1 or len(usual) == 1:
        return (usual or fitting)[0]
    if not fitting:
        layers = sorted({line.impl for line in stored.lines})
        unknown = next((word for word in words if "=" not in word and not _is_value(word) and word not in layers), "")
        near = did_you_mean(unknown, layers) if unknown else ""
        raise UsageError(f"no case of {stored.path} is '{text}'{near}: {_listed(stored.lines)}")
    example = f"--case '{fitting[0]}'"
    raise UsageError(f"{len(fitting)} cases of {stored.path} are '{text}': choose one, as by \"{example}\"")


def _fits(line: CaseResult, word: str) -> bool:
    name, equals, value = word.partition("=")
    if not equals or word == line.options:
        return word == line.impl or any(getattr(line, axis) == word for axis in AXES)
    axis = present_axis(name)
    return str(getattr(line, axis)) == value if axis in AXES else _option(word) in line.options.split("+")


def _option(word: str) -> str:
    return word.removeprefix("layer.")


def _check_keys(words: Iterable[str], lines: Iterable[CaseResult]) -> None:
    options = list(dict.fromkeys(name for line in lines for name in options_of(line.options)))
    for word in words:
        name = _option(word).partition("=")[0]
        if "=" in word and present_axis(name) not in AXES and name not in options:
            raise UsageError(f"--case has no key '{name}'{did_you_mean(name, [*options, *AXES, *LETTERS])}")


def _is_usual(line: CaseResult, others: Sequence[CaseResult], words: Sequence[str]) -> bool:
    """Whether the line has the default of each axis along which the others vary, except of axes in `words`.

    The name of a case leaves defaults out.
    """
    names = (present_axis(_option(word).partition("=")[0]) for word in words)
    given = {name if name in AXES else "options" for name in names}
    varied = [axis for axis in AXES if len({getattr(one, axis) for one in others}) > 1 and axis not in given]
    return all(getattr(line, axis) == DEFAULTS.get(axis) or str(getattr(line, axis)) in words for axis in varied)


def _is_value(word: str) -> bool:
    return any(word in axis.values for axis in AXES.values())


def _listed(lines: Sequence[CaseResult]) -> str:
    more = f", … and {len(lines) - _MOST_LISTED} more" if len(lines) > _MOST_LISTED else ""
    return "it has " + ", ".join(str(line.case) for line in lines[:_MOST_LISTED]) + more


def _differing(one: Case, other: Case) -> list[str]:
    return [axis for axis in AXES if axis not in _OF_A_SIDE and getattr(one, axis) != getattr(other, axis)]


def _check(lines: Sequence[CaseResult]) -> None:
    """Raise UsageError with the reason if the script cannot hold these cases."""
    first, *others = lines
    for other in others:
        if differing := _differing(first.case, other.case):
            raise UsageError(f"both cases of a script have the same sizes and setting: these differ in {differing[0]}")
        if first.case == other.case:
            raise UsageError("both cases are the same one: a script compares two layers")
    if first.mask == "padding":
        raise UsageError("a script has no padded batch: export a case with mask=none or mask=causal")
    for line in lines:
        if line.status == "unsupported":
            raise UsageError(f"{line.case} cannot run: {line.reason}")


def _described(case: Case, executor: Executor) -> dict[str, Any]:
    """How the layer is built and called: see `harness.trial.described_call`."""
    outcome = executor.ask("describe_call", case)
    if not outcome.ok:
        raise UsageError(f"{case.impl} cannot be exported: {outcome.reason}")
    return dict(outcome.values)


def _notices(lines: Sequence[CaseResult]) -> list[str]:
    usual = [axis for axis in ("allocator", "env") if getattr(lines[0], axis) != "default"]
    return [f"the script has {axis}=default, and the case {getattr(lines[0], axis)}" for axis in usual]


# The text.


def _text(stored: StoredRun, lines: Sequence[CaseResult], described: Sequence[Mapping[str, Any]]) -> str:
    case, first = lines[0].case, described[0]
    sides = dict(zip(_side_names([line.case for line in lines]), described, strict=True))
    references = [one["reference"] for one in described]
    share = references[0] is not None and all(one == references[0] for one in references)
    # Kernels of a GPU or of a package have no float64. Elsewhere the first of two sides in float64 judges both.
    is_kernel = case.device == "cuda" or (case.impl in IMPLS and IMPLS[case.impl].package)
    judge = share and (len(lines) == 1 or bool(is_kernel))
    built = {name: one["layer"] for name, one in sides.items()}
    if judge:
        built[_REFERENCE] = references[0]
    source = inline(
        [one["target"] for one in built.values()], {"forward", "prepare", *_METHODS.get(case.mode, ())}, _NAMES
    )
    truth = _quoted(_REFERENCE if judge else next(iter(sides))) if share else "name"
    parts = [
        _header(stored, lines, source),
        _imports(source),
        source.definitions,
        _settings(case, built, source, share),
        _call_of(case, first, built, share, judge),
        _checks(case, described, list(sides), truth, share),
        _timing(case, list(sides)),
    ]
    return "\n\n\n".join(filter(None, parts)) + "\n"


def _side_names(cases: Sequence[Case]) -> list[str]:
    impls = [case.impl for case in cases]
    return impls if len(set(impls)) == len(impls) else [f"{case.impl} h={case.num_heads}" for case in cases]


def _header(stored: StoredRun, lines: Sequence[CaseResult], source: InlinedSource) -> str:
    packages = source.packages
    needs = "torch alone" if not packages else "torch, " + ", ".join(packages)
    title = " and ".join(str(line.case) for line in lines)
    machine = stored.machine
    cpu, torch = part(machine, "cpu"), part(machine, "torch")
    versions = [
        f"torch {torch['version']}" if torch.get("version") else "",
        *(f"{name} {version}" for name, version in part(machine, "packages").items()),
        f"Python {machine['python']}" if machine.get("python") else "",
        str(torch.get("gpu") or "") if lines[0].device == "cuda" else str(cpu.get("model") or ""),
        formatting.counted(lines[0].threads, "thread"),
        str(machine.get("kernel") or ""),
    ]
    comments = [
        *map(_measured, lines),
        *_ratio(lines),
        f"By attn-harness {__version__}: {', '.join(filter(None, versions))}.",
        "This script measures worse than that: one process, so one layout of memory; no rounds in random order, no",
        "check for a disturbed machine, and no interval across processes. Repeat it before you trust a difference.",
    ]
    quoted = formatting.printable(title).replace("\\", "/").replace('"', "'")
    return "\n".join([f'"""{quoted}. Needs {needs}."""', "", *(f"# {line}" for line in comments)])


def _measured(line: CaseResult) -> str:
    """What the run found of the case, in a line."""
    figures = []
    if line.status != "ok":
        figures.append(f"{line.status}: {formatting.printable(line.reason or '')}")
    if line.time_s is not None:
        interval = ""
        if line.time_lo_s is not None and line.time_hi_s is not None and math.isfinite(line.time_hi_s):
            interval = f" (95 % interval {formatting.seconds_range(line.time_lo_s, line.time_hi_s)})"
        figures.append(f"{formatting.seconds(line.time_s)}{interval} in {formatting.counted(line.trials, 'process')}")
        figures[-1] = figures[-1].replace("processs", "processes")
    figures += [f"{line.flops:,} FLOPs"] if line.flops is not None else []
    figures += [f"peak {formatting.size(line.peak_bytes)}"] if line.peak_bytes is not None else []
    figures += [line.backend] if line.backend else []
    return f"{line.case}: {', '.join(figures) or 'not measured'}"


def _ratio(lines: Sequence[CaseResult]) -> list[str]:
    """The ratio of both times, with its interval as of independent times."""
    if len(lines) != 2 or not all(line.time_s for line in lines):
        return []
    one, other = lines
    found = with_ratio_to(one, other)
    interval = ""
    if found.ratio_lo is not None and found.ratio_hi is not None:
        interval = f" (95 % interval {formatting.three(found.ratio_lo)} – {formatting.three(found.ratio_hi)})"
    return [f"The first takes {formatting.three(found.ratio or 0.0)} times as long as the second{interval}."]


def _imports(source: InlinedSource) -> str:
    timer = "from torch.utils.benchmark import Timer"
    return "\n".join([*(one for one in source.imports if one not in ("import torch", timer)), "import torch", timer])


def _settings(case: Case, built: Mapping[str, Mapping[str, Any]], source: InlinedSource, share: bool) -> str:
    sizes = f'{case.batch_size}, {case.seq_len}, {case.d_model}, torch.{case.dtype}, "{case.device}"'
    lines = [f"B, N, D, DTYPE, DEVICE = {sizes}", f"torch.set_num_threads({case.threads})"]
    if case.device == "cuda":
        lines.append("torch.backends.cudnn.allow_tf32 = False")
    if not _trains(case):
        lines.append("torch.set_grad_enabled(False)")
    lines.append("SIDES = {")
    for name, one in built.items():
        values = {key: "D" if key == "d_model" else repr(value) for key, value in one["arguments"].items()}
        arguments = ", ".join(f"{key}={value}" for key, value in values.items())
        lines.append(f'    "{name}": lambda: {source.names[one["target"]]}({arguments}),')
    lines.append("}")
    if _takes_keywords(built):
        given = "n, source" if any("source" in one["keywords"] for one in built.values()) else "n"
        lines.append("KEYWORDS = {")
        for name, one in built.items():
            words = {key: "causal(n)" if value == "causal" else value for key, value in one["keywords"].items()}
            keywords = ", ".join(f'"{key}": {value}' for key, value in words.items())
            lines.append(f'    "{name}": lambda {given}: {{{keywords}}},')
        lines.append("}")
    if share and len(built) > 1:
        lines.append(f'WEIGHTS = SIDES["{next(iter(built))}"]().state_dict()  # of both sides')
    if any("causal" in one["keywords"].values() for one in built.values()):
        lines += ["", "", "def causal(n):"]
        lines.append("    return torch.ones(n, n, dtype=torch.bool, device=DEVICE).tril()[None, None]")
    return "\n".join(lines)


def _trains(case: Case) -> bool:
    return case.mode in ("train", "backward")


def _takes_keywords(built: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(one["keywords"] or one["prepares"] for one in built.values())


def _call_of(
    case: Case, first: Mapping[str, Any], built: Mapping[str, Mapping[str, Any]], share: bool, judge: bool
) -> str:
    """The function that builds a side and returns one call of it, which is timed."""
    width = f"{first['input_width']} * D" if first["input_width"] != 1 else "D"
    leaf = ".requires_grad_()" if _trains(case) else ""
    lines = [
        "def call_of(name, n, dtype=DTYPE):",
        "    torch.manual_seed(0)  # the same weights and input in every dtype",
        *(
            ["    layer = SIDES[name]()", "    layer.load_state_dict(WEIGHTS)"]
            if share and len(built) > 1
            else ["    layer = SIDES[name]()"]
        ),
        f"    layer = layer.to(DEVICE, DTYPE).to(dtype).{'train' if _trains(case) else 'eval'}()",
        "    torch.manual_seed(1)",
        f"    x = torch.randn(B, n, {width}).to(DEVICE, DTYPE).to(dtype){leaf}",
    ]
    call, given = "layer(x)", "n"
    if first["source_len"]:
        length = f"{case.kv_len} if n == N else {case.small().kv_len}" if case.kv_len else "n"
        lines.append(f"    source = torch.randn(B, {length}, D).to(DEVICE, DTYPE).to(dtype){leaf}")
        given = "n, source"
    if _takes_keywords(built):
        call = "layer(x, **keywords)"
        lines.append(f"    keywords = KEYWORDS[name]({given})")
    if any(one["prepares"] for one in built.values()):
        lines += ['    if hasattr(layer, "prepare"):', "        keywords = layer.prepare(x, **keywords)"]
    if _trains(case):
        lines += [
            f"    leaves = [x, {'source, ' if first['source_len'] else ''}*layer.parameters()]",
            "    gradient = torch.randn(B, n, D).to(DEVICE, DTYPE).to(dtype)",
        ]
    return "\n".join([*lines, *_bodies(case, first, call, judge)])


def _bodies(case: Case, first: Mapping[str, Any], call: str, judge: bool) -> Sequence[str]:
    """The last lines of `call_of`, which depend on the mode."""
    if case.mode == "forward":
        return [f"    return lambda: {call}"]
    if case.mode == "train":
        return [
            "",
            "    def call():",
            "        for leaf in leaves:",
            "            leaf.grad = None",
            f"        y = {call}",
            "        y.backward(gradient.to(y.dtype))",
            "        return y, x.grad",
            "",
            "    return call",
        ]
    if case.mode == "backward":
        return [
            f"    y = {call}",
            "    gradient = gradient.to(y.dtype)",
            "    return lambda: torch.autograd.grad(y, leaves, gradient, retain_graph=True, allow_unused=True)",
        ]
    start = "layer.start(B, n, source=source)" if first["source_len"] else "layer.start(B, n)"
    one_by_one = ["    for x_t in x[:, :-1].unbind(1):", "        _, state = layer.step(x_t, state)"]
    return [
        *(
            [f'    if name == "{_REFERENCE}":  # all tokens at once', f"        return lambda: {call}[:, -1]"]
            if judge
            else []
        ),
        f"    state = {start}",
        *(["    state = layer.prefill(x[:, :-1], state)"] if first["prefills"] else one_by_one),
        "    token = x[:, -1].clone()",
        "    return lambda: layer.step(token, state)[0]",
    ]


def _checks(case: Case, described: Sequence[Mapping[str, Any]], names: Sequence[str], truth: str, share: bool) -> str:
    """A loop over the sides that compares each with the truth in float64."""
    limit = max(one["gradient_tolerance" if _trains(case) else "tolerance"] for one in described)
    n = case.small().seq_len
    lines = []
    if _trains(case):
        what = "the output and the gradient of the input" if case.mode == "train" else "the gradient of the input"
        lines += [
            "def results(call):",
            f'    """{what[0].upper()}{what[1:]}, as one vector."""',
            "    torch.manual_seed(2)  # of dropout",
            f"    kept = call()[:{2 if case.mode == 'train' else 1}]",
            "    return torch.cat([one.detach().double().flatten() for one in kept])",
            "",
            "",
        ]
    made = "results(call_of({}))" if _trains(case) else "call_of({})().double()"
    against = "a reference" if truth == _quoted(_REFERENCE) else "the first" if share else "itself"
    return "\n".join(
        [
            *lines,
            f"for name in ({', '.join(_quoted(one) for one in names)},):  # against {against} in float64",
            f"    want = {made.format(f'{truth}, {n}, torch.float64')}",
            f"    got = {made.format(f'name, {n}')}",
            "    error = ((got - want).norm() / want.norm()).item()",
            f'    print(f"{{name}}: off by {{error:.1e}} of the norm at n = {n}, where rounding explains {limit:.1e}")',
            f"    assert error <= {limit:.3g}",
        ]
    )


def _quoted(text: str) -> str:
    return f'"{text}"'


def _timing(case: Case, names: Sequence[str]) -> str:
    of_names = f"({', '.join(map(_quoted, names))},)"
    lines = [
        f"calls = {{name: call_of(name, N) for name in {of_names}}}",
        f'timers = [Timer("call()", globals={{"call": one}}, num_threads={case.threads}) for one in calls.values()]',
        "turns = [[timer.blocked_autorange(min_run_time=0.2).median for timer in timers] for _ in range(5)]",
        "for name, times in zip(calls, zip(*turns)):",
        '    print(f"{name}: {min(times) * 1e3:.4g} ms (the slowest of five turns: {max(times) * 1e3:.4g} ms)")',
    ]
    if len(names) == 2:
        lines.append('print(f"ratio: {min(a for a, _ in turns) / min(b for _, b in turns):.3g}")')
    return "\n".join(lines)
