"""The part of an exported script that draws the inputs of functions, calls, checks and times them, as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import script_parts
from .script_parts import Description, Script

# What a function returns, or the first of several tensors.
_FIRST = "y[0] if isinstance(y, (tuple, list)) else y"
# Names that this part uses.
NAMES = ("first", "OTHERS", "LENGTHS", "of_each", "partial")
_LOCAL = ("n", "name", "dtype", "given", "leaves", "gradient", "forward", "y")
_FILLS = {
    "normal": "torch.randn({})",
    "positive": "torch.nn.functional.softplus(torch.randn({}))",
    "log-uniform": "10 ** (2 * torch.rand({}) - 3)",
    "cumulative lengths": "torch.arange({}) * n",
    "lengths": "torch.full(({},), n)",
}
_UNEQUAL = {"cumulative lengths": "torch.tensor([0, *LENGTHS[n]]).cumsum(0)", "lengths": "torch.tensor(LENGTHS[n])"}
# Attention of packed sequences (t, h, D) by a function of (b, h, n, D).
_OF_EACH = """def of_each(function, q, k, v, starts, *others, **keywords):
    ends = starts.tolist()
    parts = [[one[a:b].transpose(0, 1)[None] for one in (q, k, v)] for a, b in zip(ends, ends[1:])]
    return torch.cat([function(*part, **keywords)[0].transpose(0, 1) for part in parts])"""


def differing(described: Sequence[Description]) -> str | None:
    """Why these two layers or functions cannot share the inputs of a script; None if they can."""
    layers = [one["layer"] for one in described if one["inputs"] is None]
    functions = [_in_one_layout(one) for one in described if one["inputs"] is not None]
    if len({one["input_width"] for one in described if one["inputs"] is None}) > 1:
        return "both layers of a script take the same input: one of these takes q, k and v side by side, (b, n, 3d)"
    if len(functions) == 2 and functions[0] != functions[1]:
        return "both functions of a script take the same inputs: these have other shapes, dtypes or values"
    if len(functions) == 1 and not all(_takes_packed(layer, functions[0]) for layer in layers):
        return (
            "a script does not compare a layer with a function, unless it is one of sdpa.* with the same heads: give "
            "one --case, or compare with a function such as impl=torch.nn.functional:scaled_dot_product_attention"
        )
    return None


def _takes_packed(layer: Description, inputs: Sequence[Any]) -> bool:
    """Whether a layer without weights takes the q, k and v of a function side by side, (b, n, 3d)."""
    sizes, *others = inputs[0]
    heads = layer["arguments"].get("num_heads")
    alike = len(inputs) == 3 and inputs[0] == inputs[1] == inputs[2] and others == ["", True, "normal", ""]
    return layer["target"].startswith("impls.sdpa.") and alike and len(sizes[0]) == 4 and sizes[0][2] == heads


def _in_one_layout(described: Description) -> list[Any]:
    """The inputs, tokens before heads. Names count where inputs are passed by name."""
    found = []
    for place, one in enumerate(described["inputs"]):
        sizes = [list(size) for size in one["sizes"]]
        if described["layer"]["arguments"]["layout"] == "bhnd":
            sizes = [[size[0], size[2], size[1], *size[3:]] for size in sizes]
        by_name = place >= described["layer"]["arguments"]["positional"]
        found.append([sizes, one["dtype"], one["grad"], one["fill"], one["name"] * by_name])
    return found


def parts(script: Script) -> list[str]:
    """The settings, the call that is timed, the check and the timer."""
    return [_settings(script), _call_of(script), _results(script), script_parts.timing(script)]


def _takes(script: Script, *words: str) -> bool:
    return any(word in one["keywords"].values() for one in script.built.values() for word in words)


def _settings(script: Script) -> str:
    """The sizes, and how each side binds its inputs: masks and whatever a function prepares are made there."""
    case, lengths = script.case, script.first["lengths"]
    texts = {"causal": "causal(n)", "longest": "max(LENGTHS[n])" if lengths else "n"}
    lines = [f'N, DTYPE, DEVICE = {case.seq_len}, torch.{case.dtype}, "{case.device}"']
    lines += script_parts.process_settings(script)
    variables = _variables(script)
    lines += [f"LENGTHS = {dict(lengths or ())}  # of the sequences, for each n"] * bool(lengths)
    lines.append("SIDES = {")
    for name, one in script.built.items():
        function, by_name, own = script.source.names[one["target"]], one["arguments"].get("named"), variables
        if by_name is None:  # a layer without weights
            function += f"({', '.join(f'{key}={value!r}' for key, value in one['arguments'].items())})"
            by_name, own = [], ["x"]
        words = {key: texts.get(str(value), repr(value)) for key, value in one["keywords"].items()}
        function += one["arguments"].get("loaded", "")
        count = len(variables) - len(by_name)
        words |= dict(zip(by_name, variables[count:], strict=True))
        named = [f"{key}={value}" for key, value in words.items()]
        if one["prepares"]:
            prepare = script.source.names[one["inside"][0]] if one["inside"] else f"{function}.prepare"
            named = [f"**{prepare}({', '.join([*own[:count], *named])})"]
        bound = ", ".join([*["of_each"] * one["arguments"].get("of_each", False), function, *own[:count], *named])
        lines.append(f'    "{name}": lambda {", ".join([*["n"] * _takes(script, *texts), *own])}: partial({bound}),')
    lines.append("}")
    if others := _in_other_layouts(script):
        lines.append("OTHERS = {  # in another layout: the inputs, and how to see results in the layout of the inputs")
        lines += [
            f'    "{name}": (lambda *given: {there}, lambda y: {back}),' for name, (there, back) in others.items()
        ]
        lines.append("}")
    if script.trains:
        lines += ["", "", "def first(y):", f"    return {_FIRST}"]
    lines += script_parts.mask_function() * _takes(script, "causal")
    return "\n".join(lines + ["", "", _OF_EACH] * ("of_each, " in "".join(lines)))


def _variables(script: Script) -> list[str]:
    """The names of the inputs here."""
    return [one["name"] + "_" * (one["name"] in _LOCAL) for one in script.first["inputs"]]


def _in_other_layouts(script: Script) -> dict[str, tuple[str, str]]:
    """Sides in another layout than the inputs: expressions for their inputs, and for a result in the layout of those.

    A layer takes q, k and v side by side, (b, n, 3d).
    """
    layout, heads = script.first["layer"]["arguments"]["layout"], script.case.num_heads
    swap, order = (".transpose(1, 2)", "2, 0, 3, 1, 4") if layout == "bhnd" else ("", "2, 0, 1, 3, 4")
    parts = f"y.unflatten(-1, (-1, {heads}, {script.case.d_model // heads}))"
    packed = f"[torch.cat([one{swap}.flatten(2) for one in given], -1)]", f"{parts}.permute({order})"
    swapped = "[one.transpose(1, 2).contiguous() for one in given]", "y.transpose(1, 2)"
    layouts = {name: one["arguments"].get("layout") for name, one in script.built.items()}
    return {name: packed if own is None else swapped for name, own in layouts.items() if own != layout}


def _call_of(script: Script) -> str:
    """The function that draws the inputs and returns one call of a side, which is timed."""
    lines = ["def call_of(name, n, dtype=DTYPE):", "    torch.manual_seed(1)  # the same inputs in every dtype"]
    names = _variables(script)
    alike, *more = (_drawn(script, "", one) for one in script.first["inputs"])
    if len(alike) == 1 and more and all(one == alike for one in more):
        value = alike[0].partition(" = ")[2]
        lines.append(f"    given = [{value} for _ in range({len(names)})]")
    else:
        for name, one in zip(names, script.first["inputs"], strict=True):
            lines += _drawn(script, name, one)
        lines.append(f"    given = [{', '.join(names)}]")
    if others := _in_other_layouts(script):
        lines += ["    if name in OTHERS:", "        given = OTHERS[name][0](*given)"]
    bound = f"SIDES[name]({'n, ' * _takes(script, 'causal', 'longest')}*given)"
    if not script.trains:
        return "\n".join([*lines, f"    return {bound}"])
    with_gradient = [place for place, one in enumerate(script.first["inputs"]) if one["grad"]]
    some = f"given[i].requires_grad_() for i in {tuple(with_gradient)}"
    leaves = "one.requires_grad_() for one in given" if len(with_gradient) == len(names) else some
    lines += [
        f"    leaves = [{leaves}]",
        f"    gradient = torch.randn({_shape(script, script.first['output'])}).to(DEVICE, DTYPE).to(dtype)",
        *["    gradient = OTHERS[name][0](gradient)[0] if name in OTHERS else gradient"] * bool(others),
        f"    forward = {bound}",
    ]
    lines += script_parts.training_call(script, "first(forward())", "*(leaf.grad for leaf in leaves)")
    return "\n".join(lines)


def _drawn(script: Script, name: str, one: Mapping[str, Any]) -> list[str]:
    """The lines that draw an input, and call it `name`."""
    shape, dtype = _shape(script, one["sizes"]), one["dtype"]
    if not dtype:
        moved = ".to(DEVICE, DTYPE).to(dtype)"
    else:
        is_float = dtype.startswith(("float", "bfloat"))
        moved = f".to(DEVICE, torch.{dtype})" + f".to(torch.promote_types(torch.{dtype}, dtype))" * is_float
    if one["fill"] == "normal":
        return script_parts.drawn(name, shape, script.case, moved)
    fills = _FILLS | (_UNEQUAL if script.first["lengths"] else {})
    fill = fills.get(one["fill"]) or f"{script.source.names[one['fill']]}({{}})"
    return [f"    {name} = ({fill.format(shape)}){moved}"]


def _shape(script: Script, sizes: Sequence[Sequence[int]]) -> str:
    """The arguments of `torch.randn`: a dimension that is the length is `n`."""
    timed, small = sizes
    n = script.case.seq_len, script.first["small_len"]
    words = []
    for pair in zip(timed, small, strict=True):
        one, other = pair
        words.append("n" if pair == n else str(one) if one == other else f"{one} if n == N else {other}")
    return ", ".join(words)


def _results(script: Script) -> str:
    """The results of a call as one vector, and the check that compares them with the truth in float64."""
    lines = [
        "def results(name, n, dtype=DTYPE):",
        "    y = call_of(name, n, dtype)()",
        f"    kept = [{'one for one in y if one is not None' if script.trains else _FIRST}]",
        *["    kept = [OTHERS[name][1](one) for one in kept] if name in OTHERS else kept"]
        * bool(_in_other_layouts(script)),
        "    return torch.cat([one.detach().double().flatten() for one in kept])",
        *("", ""),
    ]
    return "\n".join([*lines, *script_parts.check_loop(script, "results({})")])
