"""What an exported script holds, where its layers come from, and the text that is the same for layers and functions."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.model.sweep_axes import Case
from harness.core.results.row import AT_LEAST_0, COUNT, FLAG, LIST, OBJECT, TEXT, TrialKind, list_of, none_or, object_of

# The package of the project's layers, and the name under which pip installs it.
_LAYERS, _PROJECT = "impls", "attn-harness"
# The names that `_IMPORTER` binds.
IMPORTER_NAMES = ("sys", "ExecutionLoader", "MetaPathFinder", "spec_from_loader", "MODULES", "OwnModules")
_IMPORTER = """class OwnModules(MetaPathFinder, ExecutionLoader):  # imports the modules above
    def find_spec(self, name, path=None, target=None):
        return spec_from_loader(name, self) if name in MODULES else None

    def is_package(self, name):
        return any(other.startswith(name + ".") for other in MODULES)

    def get_filename(self, name):
        return name + ".py"

    def get_source(self, name):
        return MODULES[name]


sys.meta_path.insert(0, OwnModules())"""
_IMPORTS_OF_IMPORTER = (
    "import sys",
    "from importlib.abc import ExecutionLoader, MetaPathFinder",
    "from importlib.util import spec_from_loader",
)


@dataclass
class ScriptSource:
    """The lines of Python that a script's layers come from.

    - `imports`, `definitions`: imports, and the user's modules as text with imports from them.
    - `names`: what each layer or function is called in the script, by its `module:Class`.
    - `packages`: what must be installed besides torch.
    """

    imports: list[str] = field(default_factory=list)
    definitions: str = ""
    names: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)


def source_of(targets: Iterable[str], modules: Mapping[str, str], taken: Collection[str]) -> ScriptSource:
    """The source of the classes and functions `module:Class` or `path/to/a.py:Class`.

    `modules` holds the text of each module of the user, by its name or file. `taken` are names of the script.
    """
    found = ScriptSource()
    module_names = _module_names(modules)
    used = {*taken, *IMPORTER_NAMES}
    imports_of_own = []
    for target in dict.fromkeys(targets):
        named, _, attribute = target.rpartition(":")
        place = str(Path(named).absolute()) if named.endswith(".py") else named
        imported, dot, inner = attribute.partition(".")
        here = _unused(imported, used)
        module = module_names.get(place, place)
        line = f"from {module} import {imported}" + (f" as {here}" if here != imported else "")
        found.names[target] = here + dot + inner
        if place in modules:
            imports_of_own.append(line)
        else:
            found.imports.append(line)
            _need_package(found.packages, module.partition(".")[0])
    if modules:
        found.imports += _IMPORTS_OF_IMPORTER
        texts = [f"    {name!r}: {_quoted(modules[place])}," for place, name in module_names.items()]
        dictionary = "\n".join(["MODULES = {", *texts, "}"])
        found.definitions = "\n\n\n".join([dictionary, _IMPORTER]) + "\n" + "\n".join(imports_of_own)
    return found


def _module_names(places: Iterable[str]) -> dict[str, str]:
    """What each module is called in the script: a file is called by its name."""
    names: dict[str, str] = {}
    for place in places:
        name = Path(place).stem if place.endswith(".py") else place
        names[place] = _unused(name, set(names.values()))
    return names


def _unused(name: str, used: set[str]) -> str:
    """The name, or one with a number if it is in `used`, to which it is added."""
    number, here = 1, name
    while here in used:
        number += 1
        here = f"{name}_{number}"
    used.add(here)
    return here


def _need_package(packages: list[str], top: str) -> None:
    package = _PROJECT if top == _LAYERS else top
    if top != "torch" and top not in sys.stdlib_module_names and package not in packages:
        packages.append(package)


def _quoted(text: str) -> str:
    """The text as a literal of Python that reads like the file, if it can."""
    for quotes in ("'''", '"""'):
        if quotes not in text and not text.endswith("\\"):
            return f"r{quotes}\n{text.strip()}\n{quotes}"
    return repr(text)


def _built(value: Any) -> bool:
    """Whether it says how a layer is built and called: see `harness.extras.export.trials`."""
    return isinstance(value, dict) and set(value) == {"target", "arguments", "inside", "keywords", "prepares"}


DESCRIBE_CALL = TrialKind(
    {
        "layer": _built,
        "reference": none_or(_built),
        **dict.fromkeys(("input_width", "source_len", "small_len"), COUNT),
        "prefills": FLAG,
        "inputs": none_or(list_of(OBJECT)),
        "output": none_or(list_of(list_of(COUNT))),
        "lengths": none_or(list_of(LIST)),
        **dict.fromkeys(("tolerance", "gradient_tolerance"), AT_LEAST_0),
        "modules": object_of(TEXT),
    },
    builds_layer=False,
    handler="harness.extras.export.trials:describe_call",
    takes=("case",),
)


# The name of the side that is the reference; those of a side alone are `reference of NAME`.
REFERENCE = "reference"
# How a layer is built and called: see `harness.core.trial.described_call`.
Description = Mapping[str, Any]


@dataclass(frozen=True)
class Script:
    """What a script holds.

    - `case`, `names`: one of its cases, which have the same sizes, and the name of each side.
    - `built`: each side by its name, and the reference if the script has it, as `describe_call` describes them.
    - `described`: the whole answers of `describe_call`, one for each side.
    - `truths`: for each side, the name of what is right in float64: a reference in `built`, or the side itself.
    - `checks`: the lengths at which the sides are compared with it, each with the largest relative error allowed.
    """

    case: Case
    names: Sequence[str]
    built: Mapping[str, Description]
    source: ScriptSource
    truths: Mapping[str, str]
    described: Sequence[Description]
    checks: Mapping[int, float]

    @property
    def first(self) -> Description:
        """The description of the first side, or of the function beside a layer."""
        return next((one for one in self.described if one["inputs"] is not None), self.described[0])

    @property
    def trains(self) -> bool:
        """Whether the mode has a backward pass."""
        return self.case.trains

    @property
    def has_reference(self) -> bool:
        """Whether a reference is built beside the sides."""
        return len(self.built) > len(self.names)


def process_settings(script: Script) -> list[str]:
    """The lines that set threads, precision and gradients of the process."""
    case = script.case
    lines = [f"torch.set_num_threads({case.threads})"]
    lines += ["torch.backends.cudnn.allow_tf32 = False"] * (case.device == "cuda")
    return lines + ["torch.set_grad_enabled(False)"] * (not script.trains)


def mask_function() -> list[str]:
    """The lines of the function that makes a causal mask."""
    return [
        *("", "", "def causal(n):"),
        "    return torch.ones(n, n, dtype=torch.bool, device=DEVICE).tril()[None, None]",
    ]


def drawn(name: str, shape: str, case: Case, moved: str) -> list[str]:
    """The lines that draw normal values. With `inputs=outliers`, some channels are 20 times as large."""
    if case.inputs != "outliers":
        return [f"    {name} = torch.randn({shape}){moved}"]
    scale = [f"    {name}[..., ::64] *= 20.0  # inputs=outliers", f"    {name} = {name}{moved}"]
    return [f"    {name} = torch.randn({shape})", *scale]


def training_call(script: Script, forward: str, results: str) -> list[str]:
    """The last lines of `call_of` with a backward pass. `forward` makes the output; a step also returns `results`."""
    if script.case.mode == "backward":
        return [
            f"    y = {forward}",
            "    gradient = gradient.to(y.dtype)",
            "    return lambda: torch.autograd.grad(y, leaves, gradient, retain_graph=True, allow_unused=True)",
        ]
    return [
        "",
        "    def call():",
        "        for leaf in leaves:",
        "            leaf.grad = None",
        f"        y = {forward}",
        "        y.backward(gradient.to(y.dtype))",
        f"        return y, {results}",
        "",
        "    return call",
    ]


def check_loop(script: Script, made: str) -> list[str]:
    """The loop of the check. `made` is the expression for a result, with the arguments of `call_of` left open."""
    checks = ", ".join(f"({n}, {limit:.1e})" for n, limit in script.checks.items())
    pairs = ", ".join(f"({quoted(name)}, {quoted(truth)})" for name, truth in script.truths.items())
    is_alone = [name == truth for name, truth in script.truths.items()]
    words = "itself" if all(is_alone) else "the {truth}"
    words = "{'itself' if truth == name else 'the ' + truth}" if len(set(is_alone)) == 2 else words
    lines = [
        f"for n, limit in [{checks}]:",
        f"    for name, truth in [{pairs}]:",
        f"        got, want = {made.format('name, n')}, {made.format('truth, n, torch.float64')}",
        "        error = ((got - want).norm() / want.norm()).item()",
        f'        print(f"{{name}}: off by {{error:.1e}} of the norm of {words} in float64 at n = {{n}}'
        '; allowed: {limit:.1e}")',
        "        assert error <= limit",
    ]
    if script.case.seq_len not in script.checks:
        lines.append(
            'print(f"Not checked at n = {N}: a float64 reference may hold more than 256 MiB of scores there.")'
        )
    return lines


def listed(names: Iterable[str]) -> str:
    """The names as a list of Python."""
    return f"[{', '.join(map(quoted, names))}]"


def quoted(text: str) -> str:
    """The text as a string of Python."""
    return f'"{text}"'


def timing(script: Script) -> str:
    """The timer: five turns of each side, and their ratio."""
    lines = [
        f"calls = {{name: call_of(name, N) for name in {listed(script.names)}}}",
        f'timers = [Timer("call()", globals={{"call": c}}, num_threads={script.case.threads}) for c in calls.values()]',
        "turns = [[timer.blocked_autorange(min_run_time=0.2).median for timer in timers] for _ in range(5)]",
        "for name, times in zip(calls, zip(*turns)):",
        '    print(f"{name}: {min(times) * 1e3:.4g} ms (the slowest of five turns: {max(times) * 1e3:.4g} ms)")',
    ]
    if len(script.names) == 2:
        lines.append('print(f"ratio: {min(a for a, _ in turns) / min(b for _, b in turns):.3g}")')
    return "\n".join(lines)
