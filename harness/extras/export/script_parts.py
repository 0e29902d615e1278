"""What an exported script holds: where its layers come from, and expressions that draw and bind inputs of functions.

The files in `templates/` have the text of a script.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.model.sweep_axes import Case
from harness.core.results.row import AT_LEAST_0, COUNT, FLAG, LIST, OBJECT, TrialKind, list_of, none_or, texts_by_name

# The package of the project's layers, and the name under which pip installs it.
_LAYERS, _PROJECT = "impls", "attn-harness"
# The names that the importer of the user's modules binds.
IMPORTER_NAMES = ("sys", "ExecutionLoader", "MetaPathFinder", "spec_from_loader", "MODULES", "OwnModules")


@dataclass
class ScriptSource:
    """The lines of Python that a script's layers come from.

    - `imports`: imports from packages; none binds a name that a script uses itself.
    - `modules`, `own_imports`: the user's modules by name, as literals of Python, and imports from them.
    - `names`: what each layer or function is called in the script, by its `module:Class`.
    - `packages`: what must be installed besides torch.
    """

    imports: list[str] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    own_imports: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)


def source_of(targets: Iterable[str], modules: Mapping[str, str], names_in_script: Collection[str]) -> ScriptSource:
    """The source of the classes and functions `module:Class` or `path/to/a.py:Class`.

    `modules` holds the text of each module of the user, by its name or file. The script itself uses `names_in_script`.
    """
    source = ScriptSource()
    module_names = _module_names(modules)
    used = {*names_in_script, *IMPORTER_NAMES}
    for target in dict.fromkeys(targets):
        named, _, attribute = target.rpartition(":")
        place = str(Path(named).absolute()) if named.endswith(".py") else named
        imported, dot, inner = attribute.partition(".")
        here = _unused(imported, used)
        module = module_names.get(place, place)
        line = f"from {module} import {imported}" + (f" as {here}" if here != imported else "")
        source.names[target] = here + dot + inner
        if place in modules:
            source.own_imports.append(line)
        else:
            source.imports.append(line)
            top = module.partition(".")[0]
            package = _PROJECT if top == _LAYERS else top
            if top != "torch" and top not in sys.stdlib_module_names and package not in source.packages:
                source.packages.append(package)
    source.modules = {name: _quoted(modules[place]) for place, name in module_names.items()}
    return source


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
        "modules": texts_by_name,
    },
    handler="harness.extras.export.trials:describe_call",
    takes=("case",),
)


# The name of the side that is the reference; those of a side alone are `reference of NAME`.
REFERENCE = "reference"
# How a layer is built and called: see `harness.extras.export.trials`.
Description = Mapping[str, Any]


@dataclass(frozen=True)
class Script:
    """What a script holds.

    - `case`, `names`: one of its cases, which have the same sizes, and the name of each side.
    - `built`: each side by its name, and the reference if the script has it, as `describe_call` describes them.
    - `first`: the whole answer of `describe_call` for the first side, or for the function beside a layer.
    - `truths`: for each side, the name of what is right in float64: a reference in `built`, or the side itself.
    - `checks`: the lengths at which the sides are compared with it, each with the largest relative error allowed.
    """

    case: Case
    names: Sequence[str]
    built: Mapping[str, Description]
    source: ScriptSource
    truths: Mapping[str, str]
    first: Description
    checks: Mapping[int, float]

    @property
    def has_reference(self) -> bool:
        """Whether a reference is built beside the sides."""
        return len(self.built) > len(self.names)

    def takes(self, *words: str) -> bool:
        """Whether an argument of a side is one of these words, such as `causal` for a mask."""
        return any(word in side["keywords"].values() for side in self.built.values() for word in words)

    @property
    def truth_words(self) -> str:
        """What each side is compared with, in a format string of the script."""
        is_alone = {name == truth for name, truth in self.truths.items()}
        if len(is_alone) == 2:
            return "{'itself' if truth == name else 'the ' + truth}"
        return "itself" if is_alone == {True} else "the {truth}"


# Names that a script of functions uses.
NAMES_OF_FUNCTIONS = ("first", "OTHERS", "LENGTHS", "of_each", "partial")
_LOCAL = ("n", "name", "dtype", "given", "leaves", "gradient", "forward", "y")
_FILLS = {
    "normal": "torch.randn({})",
    "positive": "torch.nn.functional.softplus(torch.randn({}))",
    "log-uniform": "10 ** (2 * torch.rand({}) - 3)",
    "cumulative lengths": "torch.arange({}) * n",
    "lengths": "torch.full(({},), n)",
}
_UNEQUAL = {"cumulative lengths": "torch.tensor([0, *LENGTHS[n]]).cumsum(0)", "lengths": "torch.tensor(LENGTHS[n])"}


def differing(described: Sequence[Description]) -> str | None:
    """Why these two layers or functions cannot share the inputs of a script; None if they can."""
    layers = [side for side in described if side["inputs"] is None]
    functions = [_in_one_layout(side) for side in described if side["inputs"] is not None]
    if len({side["input_width"] for side in layers}) > 1:
        return "both layers of a script take the same input: one of these takes q, k and v side by side, (b, n, 3d)"
    if len(functions) == 2 and functions[0] != functions[1]:
        return "both functions of a script take the same inputs: these have other shapes, dtypes or values"
    if len(functions) == 1 and not all(_takes_packed(side["layer"], functions[0]) for side in layers):
        return (
            "a script does not compare a layer with a function, unless it is one of sdpa.* with the same heads: give "
            "one --case, or compare with a function such as impl=torch.nn.functional:scaled_dot_product_attention"
        )
    return None


def _takes_packed(layer: Description, inputs: Sequence[Any]) -> bool:
    """Whether a layer without weights takes the q, k and v of a function side by side, (b, n, 3d)."""
    sizes, *described = inputs[0]
    heads = layer["arguments"].get("num_heads")
    alike = len(inputs) == 3 and inputs[0] == inputs[1] == inputs[2] and described == ["", True, "normal", ""]
    return layer["target"].startswith("impls.sdpa.") and alike and len(sizes[0]) == 4 and sizes[0][2] == heads


def _in_one_layout(described: Description) -> list[Any]:
    """The inputs, tokens before heads. Names count where inputs are passed by name."""
    arguments = described["layer"]["arguments"]
    inputs = []
    for place, described_input in enumerate(described["inputs"]):
        sizes = [list(size) for size in described_input["sizes"]]
        if arguments["layout"] == "bhnd":
            sizes = [[size[0], size[2], size[1], *size[3:]] for size in sizes]
        name = described_input["name"] if place >= arguments["positional"] else ""
        inputs.append([sizes, described_input["dtype"], described_input["grad"], described_input["fill"], name])
    return inputs


def function_parts(script: Script) -> dict[str, Any]:
    """What the template of functions needs beside the script."""
    inputs = script.first["inputs"]
    drawn = [
        {"name": _name(described), "drawn": _drawn(script, described), "is_normal": described["fill"] == "normal"}
        for described in inputs
    ]
    leaves = "one.requires_grad_() for one in given"
    if not all(described["grad"] for described in inputs):
        places = tuple(place for place, described in enumerate(inputs) if described["grad"])
        leaves = f"given[i].requires_grad_() for i in {places}"
    return {
        "inputs": drawn,
        "sides": {name: _bound(script, side) for name, side in script.built.items()},
        "others": _in_other_layouts(script),
        "calls_each": any(side["arguments"].get("of_each") for side in script.built.values()),
        "lengths": dict(script.first["lengths"] or ()),
        "leaves": leaves,
        "output": _shape(script, script.first["output"]),
    }


def _name(described: Mapping[str, Any]) -> str:
    """The name of an input here."""
    name = described["name"]
    return f"{name}_" if name in _LOCAL else name


def _bound(script: Script, side: Description) -> str:
    """A function of the inputs that binds them. Masks and whatever a function prepares are made there."""
    words = {"causal": "causal(n)", "longest": "max(LENGTHS[n])" if script.first["lengths"] else "n"}
    keywords = {key: words.get(str(value), repr(value)) for key, value in side["keywords"].items()}
    function, arguments = script.source.names[side["target"]], side["arguments"]
    if "named" in arguments:
        function += arguments.get("loaded", "")
        inputs = [_name(described) for described in script.first["inputs"]]
        count = len(inputs) - len(arguments["named"])
        keywords |= dict(zip(arguments["named"], inputs[count:], strict=True))
    else:  # a layer without weights
        function += f"({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        inputs, count = ["x"], 1
    named = [f"{key}={value}" for key, value in keywords.items()]
    if side["prepares"]:
        prepare = script.source.names[side["inside"][0]] if side["inside"] else f"{function}.prepare"
        named = [f"**{prepare}({', '.join([*inputs[:count], *named])})"]
    called = ["of_each", function] if arguments.get("of_each") else [function]
    parameters = ["n", *inputs] if script.takes(*words) else inputs
    return f"lambda {', '.join(parameters)}: partial({', '.join([*called, *inputs[:count], *named])})"


def _in_other_layouts(script: Script) -> dict[str, tuple[str, str]]:
    """Sides in another layout than the inputs: expressions for their inputs, and for a result in the layout of those.

    A layer takes q, k and v side by side, (b, n, 3d).
    """
    layout, heads = script.first["layer"]["arguments"]["layout"], script.case.num_heads
    swap, order = (".transpose(1, 2)", "2, 0, 3, 1, 4") if layout == "bhnd" else ("", "2, 0, 1, 3, 4")
    parts = f"y.unflatten(-1, (-1, {heads}, {script.case.d_model // heads}))"
    packed = f"[torch.cat([one{swap}.flatten(2) for one in given], -1)]", f"{parts}.permute({order})"
    swapped = "[one.transpose(1, 2).contiguous() for one in given]", "y.transpose(1, 2)"
    layouts = {name: side["arguments"].get("layout") for name, side in script.built.items()}
    return {name: packed if of_side is None else swapped for name, of_side in layouts.items() if of_side != layout}


def _drawn(script: Script, described: Mapping[str, Any]) -> tuple[str, str]:
    """The expression of an input's value, and how it is moved to the device and dtype."""
    dtype, fill = described["dtype"], described["fill"]
    moved = ".to(DEVICE, DTYPE).to(dtype)"
    if dtype:
        moved = f".to(DEVICE, torch.{dtype})"
        if dtype.startswith(("float", "bfloat")):
            moved += f".to(torch.promote_types(torch.{dtype}, dtype))"
    fills = _FILLS | (_UNEQUAL if script.first["lengths"] else {})
    value = (fills.get(fill) or f"{script.source.names[fill]}({{}})").format(_shape(script, described["sizes"]))
    return (value if fill == "normal" else f"({value})"), moved


def _shape(script: Script, sizes: Sequence[Sequence[int]]) -> str:
    """The arguments of `torch.randn`: a dimension that is the length is `n`."""
    n = [script.case.seq_len, script.first["small_len"]]
    words = []
    for timed, small in zip(*sizes, strict=True):
        word = str(timed) if timed == small else f"{timed} if n == N else {small}"
        words.append("n" if [timed, small] == n else word)
    return ", ".join(words)
