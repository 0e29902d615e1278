"""The part of an exported script that builds, checks and times layers, as text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.inlined_source import InlinedSource
from harness.sweep_axes import Case

# The name of the side that is the reference; those of a side alone are `reference of NAME`.
REFERENCE = "reference"
# Names that this part uses.
NAMES = ("B", "D", "KEYWORDS", "WEIGHTS", "LAYERS")


@dataclass(frozen=True)
class Script:
    """What a script holds.

    - `case`, `names`: one of its cases, which have the same sizes, and the name of each side.
    - `built`: each side by its name, and the reference if the script has it, as `describe_call` describes them.
    - `described`: the whole answers of `describe_call`, one for each side.
    - `truths`: for each side, the name of what is right in float64: a reference or a side in `built`.
    """

    case: Case
    names: Sequence[str]
    built: Mapping[str, Mapping[str, Any]]
    source: InlinedSource
    truths: Mapping[str, str]
    described: Sequence[Mapping[str, Any]]

    @property
    def first(self) -> Mapping[str, Any]:
        """The description of the first side."""
        return self.described[0]

    @property
    def trains(self) -> bool:
        """Whether the mode has a backward pass."""
        return self.case.mode in ("train", "backward")

    @property
    def share(self) -> bool:
        """Whether all that is built computes the same, with the same weights."""
        return len(self.built) > 1 and len(set(self.truths.values())) == 1

    @property
    def has_reference(self) -> bool:
        """Whether a reference is built beside the sides."""
        return len(self.built) > len(self.names)

    @property
    def small_n(self) -> int:
        """The length at which the sides are compared."""
        return int(self.first["small_len"])

    @property
    def limit(self) -> float:
        """The largest relative error that rounding explains."""
        return max(one["gradient_tolerance" if self.trains else "tolerance"] for one in self.described)


def parts(script: Script) -> list[str]:
    """The settings, the call that is timed, the check and the timer."""
    return [_settings(script), _call_of(script), _checks(script), timing(script)]


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


def _settings(script: Script) -> str:
    case, built, source = script.case, script.built, script.source
    sizes = f'{case.batch_size}, {case.seq_len}, {case.d_model}, torch.{case.dtype}, "{case.device}"'
    lines = [f"B, N, D, DTYPE, DEVICE = {sizes}", *process_settings(script)]
    lines.append("SIDES = {")
    for name, one in built.items():
        values = {key: "D" if key == "d_model" else repr(value) for key, value in one["arguments"].items()}
        arguments = ", ".join(f"{key}={value}" for key, value in values.items())
        lines.append(f'    "{name}": lambda: {source.names[one["target"]]}({arguments}),')
    lines.append("}")
    if inside := dict.fromkeys(target for one in built.values() for target in one["inside"]):
        layers = ", ".join(f'"{target}": {source.names[target]}' for target in inside)
        lines.append(f"LAYERS = {{{layers}}}  # which the blocks find by name")
    if _takes_keywords(built):
        given = "n, source" if any("source" in one["keywords"] for one in built.values()) else "n"
        lines.append("KEYWORDS = {")
        for name, one in built.items():
            words = {key: "causal(n)" if value == "causal" else value for key, value in one["keywords"].items()}
            keywords = ", ".join(f'"{key}": {value}' for key, value in words.items())
            lines.append(f'    "{name}": lambda {given}: {{{keywords}}},')
        lines.append("}")
    if script.share:
        lines.append(f"WEIGHTS = SIDES[{quoted(script.names[0])}]().state_dict()  # of both sides")
    elif script.has_reference:
        lines.append(f"WEIGHTS = {{name: SIDES[name]().state_dict() for name in {listed(script.names)}}}")
    if any("causal" in one["keywords"].values() for one in built.values()):
        lines += mask_function()
    return "\n".join(lines)


def _takes_keywords(built: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(one["keywords"] or one["prepares"] for one in built.values())


def drawn(name: str, shape: str, case: Case, moved: str) -> list[str]:
    """The lines that draw normal values. With `inputs=outliers`, some channels are 20 times as large."""
    if case.inputs != "outliers":
        return [f"    {name} = torch.randn({shape}){moved}"]
    scale = [f"    {name}[..., ::64] *= 20.0  # inputs=outliers", f"    {name} = {name}{moved}"]
    return [f"    {name} = torch.randn({shape})", *scale]


def _call_of(script: Script) -> str:
    """The function that builds a side and returns one call of it, which is timed."""
    case, first, built = script.case, script.first, script.built
    width = f"{first['input_width']} * D" if first["input_width"] != 1 else "D"
    leaf = ".requires_grad_()" if script.trains else ""
    lines = [
        "def call_of(name, n, dtype=DTYPE):",
        "    torch.manual_seed(0)  # the same weights and input in every dtype",
        "    layer = SIDES[name]()",
        *_loaded(script),
        f"    layer = layer.to(DEVICE, DTYPE).to(dtype).{'train' if script.trains else 'eval'}()",
        "    torch.manual_seed(1)",
        *drawn("x", f"B, n, {width}", case, f".to(DEVICE, DTYPE).to(dtype){leaf}"),
    ]
    call, given = "layer(x)", "n"
    if first["source_len"]:
        length = f"{case.kv_len} if n == N else {case.small().kv_len}" if case.kv_len else "n"
        lines += drawn("source", f"B, {length}, D", case, f".to(DEVICE, DTYPE).to(dtype){leaf}")
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


def _loaded(script: Script) -> list[str]:
    """The line that gives a side and its reference the same weights."""
    if not script.share and not script.has_reference:
        return []
    weights = "WEIGHTS" if script.share else f'WEIGHTS[name.removeprefix("{REFERENCE} of ")]'
    return [f"    layer.load_state_dict({weights})"]


def _bodies(script: Script, call: str) -> Sequence[str]:
    """The last lines of `call_of`, which depend on the mode."""
    case, first = script.case, script.first
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
    at_once = call if not first["source_len"] else "layer(x, source=source)"
    one_by_one = ["    for x_t in x[:, :-1].unbind(1):", "        _, state = layer.step(x_t, state)"]
    return [
        *(
            [
                f'    if name == "{REFERENCE}" or name.startswith("{REFERENCE} of "):  # all tokens at once',
                f"        return lambda: {at_once}[:, -1]",
            ]
            if script.has_reference
            else []
        ),
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
    return "\n".join([*lines, *check_loop(script, made)])


def check_loop(script: Script, made: str) -> list[str]:
    """The loop of the check. `made` is the expression for a result, with the arguments of `call_of` left open."""
    n, limit = script.small_n, f"{script.limit:.1e}"
    truth, words = _truth(script)
    return [
        f"for name in {listed(script.names)}:",
        f"    want = {made.format(f'{truth}, {n}, torch.float64')}",
        f"    got = {made.format(f'name, {n}')}",
        "    error = ((got - want).norm() / want.norm()).item()",
        f'    print(f"{{name}}: off by {{error:.1e}} of the norm of {words} in float64 at n = {n}; rounding: {limit}")',
        f"    assert error <= {script.limit:.3g}",
    ]


def _truth(script: Script) -> tuple[str, str]:
    """An expression for what is right in float64 for the side `name`, and the words for it."""
    truths = script.truths
    if script.share:
        return quoted(truths[script.names[0]]), "the reference" if script.has_reference else "the first side"
    own = f'f"{REFERENCE} of {{name}}"'
    is_alone = [truth == name for name, truth in truths.items()]
    if not any(is_alone):
        return own, "its reference"
    if all(is_alone):
        return "name", "itself"
    alone = script.names[is_alone.index(True)]
    return f"name if name == {quoted(alone)} else {own}", f"{{'itself' if name == '{alone}' else 'its reference'}}"


def listed(names: Iterable[str]) -> str:
    """The names as a list of Python."""
    return f"[{', '.join(map(quoted, names))}]"


def quoted(text: str) -> str:
    """The text as a string of Python."""
    return f'"{text}"'


def timing(script: Script) -> str:
    """The timer: five turns of each side, and their ratio."""
    threads = script.case.threads
    lines = [
        f"calls = {{name: call_of(name, N) for name in {listed(script.names)}}}",
        f'timers = [Timer("call()", globals={{"call": one}}, num_threads={threads}) for one in calls.values()]',
        "turns = [[timer.blocked_autorange(min_run_time=0.2).median for timer in timers] for _ in range(5)]",
        "for name, times in zip(calls, zip(*turns)):",
        '    print(f"{name}: {min(times) * 1e3:.4g} ms (the slowest of five turns: {max(times) * 1e3:.4g} ms)")',
    ]
    if len(script.names) == 2:
        lines.append('print(f"ratio: {min(a for a, _ in turns) / min(b for _, b in turns):.3g}")')
    return "\n".join(lines)
