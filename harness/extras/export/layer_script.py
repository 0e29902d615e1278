"""The part of an exported script that builds, checks and times layers, as text."""

from collections.abc import Mapping, Sequence

from . import script_parts
from .script_parts import REFERENCE, Description, Script, quoted

# Names that this part uses.
NAMES = ("B", "D", "KEYWORDS")


def parts(script: Script) -> list[str]:
    """The settings, the call that is timed, the check and the timer."""
    return [_settings(script), _call_of(script), _checks(script), script_parts.timing(script)]


def _settings(script: Script) -> str:
    case, built, source = script.case, script.built, script.source
    sizes = f'{case.batch_size}, {case.seq_len}, {case.d_model}, torch.{case.dtype}, "{case.device}"'
    lines = [f"B, N, D, DTYPE, DEVICE = {sizes}", *script_parts.process_settings(script)]
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
    if any("causal" in one["keywords"].values() for one in built.values()):
        lines += script_parts.mask_function()
    return "\n".join(lines)


def _takes_keywords(built: Mapping[str, Description]) -> bool:
    return any(one["keywords"] or one["prepares"] for one in built.values())


def _call_of(script: Script) -> str:
    """The function that builds a side and returns one call of it, which is timed."""
    case, first, built = script.case, script.first, script.built
    width = f"{first['input_width']} * D" if first["input_width"] != 1 else "D"
    leaf = ".requires_grad_()" if script.trains else ""
    # Both sides and their reference have the same weights, or each side and its own reference.
    owner = quoted(script.names[0]) if REFERENCE in built else f'name.removeprefix("{REFERENCE} of ")'
    lines = [
        "def call_of(name, n, dtype=DTYPE):",
        "    torch.manual_seed(0)  # the same weights and input in every dtype",
        *[f"    weights = SIDES[{owner}]().state_dict()"] * script.has_reference,
        "    layer = SIDES[name]()",
        *["    layer.load_state_dict(weights)"] * script.has_reference,
        f"    layer = layer.to(DEVICE, DTYPE).to(dtype).{'train' if script.trains else 'eval'}()",
        "    torch.manual_seed(1)",
        *script_parts.drawn("x", f"B, n, {width}", case, f".to(DEVICE, DTYPE).to(dtype){leaf}"),
    ]
    call, given = "layer(x)", "n"
    if first["source_len"]:
        length = f"{case.kv_len} if n == N else {case.small().kv_len}" if case.kv_len else "n"
        lines += script_parts.drawn("source", f"B, {length}, D", case, f".to(DEVICE, DTYPE).to(dtype){leaf}")
        given = "n, source"
    if _takes_keywords(built):
        call = "layer(x, **keywords)"
        lines.append(f"    keywords = KEYWORDS[name]({given})")
    if any(one["prepares"] for one in built.values()):
        lines += ['    if hasattr(layer, "prepare"):', "        keywords = layer.prepare(x, **keywords)"]
    if script.trains:
        lines += [
            f"    leaves = [x, {'source, ' if first['source_len'] else ''}*layer.parameters()]",
            "    gradient = torch.randn(B, n, D).to(DEVICE, DTYPE).to(dtype)",
        ]
    return "\n".join([*lines, *_bodies(script, call)])


def _bodies(script: Script, call: str) -> Sequence[str]:
    """The last lines of `call_of`, which depend on the mode."""
    case, first = script.case, script.first
    if case.mode == "forward":
        return [f"    return lambda: {call}"]
    if script.trains:
        return script_parts.training_call(script, call, "x.grad")
    start = "layer.start(B, n, source=source)" if first["source_len"] else "layer.start(B, n)"
    at_once = call if not first["source_len"] else "layer(x, source=source)"
    one_by_one = ["    for x_t in x[:, :-1].unbind(1):", "        _, state = layer.step(x_t, state)"]
    of_reference = [
        f'    if name == "{REFERENCE}" or name.startswith("{REFERENCE} of "):  # all tokens at once',
        f"        return lambda: {at_once}[:, -1]",
    ]
    return [
        *of_reference * script.has_reference,
        f"    state = {start}",
        *(["    state = layer.prefill(x[:, :-1], state)"] if first["prefills"] else one_by_one),
        "    token = x[:, -1].clone()",
        "    return lambda: layer.step(token, state)[0]",
    ]


def _checks(script: Script) -> str:
    """A loop over the sides that compares each with the truth in float64."""
    lines = []
    if script.trains:
        is_train = script.case.mode == "train"
        what = "the output and the gradient of the input" if is_train else "the gradient of the input"
        lines += [
            "def results(call):",
            f'    """{what[0].upper()}{what[1:]}, as one vector."""',
            "    torch.manual_seed(2)  # of dropout",
            f"    kept = call()[:{2 if is_train else 1}]",
            "    return torch.cat([one.detach().double().flatten() for one in kept])",
            "",
            "",
        ]
    made = "results(call_of({}))" if script.trains else "call_of({})().double()"
    return "\n".join([*lines, *script_parts.check_loop(script, made)])
