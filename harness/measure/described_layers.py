"""What trials find out about layers before anything is measured: the traits of each, and its options.

This process never imports a user's module.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from harness import layer_lookup
from harness.config import SweepConfig
from harness.errors import UsageError
from harness.layer_lookup import Traits
from harness.layer_options import NO_OPTIONS, check_taken, options_of, without_defaults
from harness.measure.executor import Executor
from harness.sweep_axes import OWN_ENVIRONMENT, Case


def describe_impl(impl: str, executor: Executor) -> Traits:
    """The traits of a layer. A trial describes a user's own layer.

    Raises UsageError if the module, the class or its reference cannot be loaded, if its claims are not valid, or if its
    traits differ between environments.
    """
    if not layer_lookup.is_foreign(impl):
        return layer_lookup.traits(impl)
    found = {environment: _describe_within(environment, impl, executor) for environment in executor.environments}
    (first, traits), *others = found.items()
    for environment, other in others:
        if other != traits:
            text = f"impl '{impl}' has another family or other heads in env={environment} than in env={first}"
            raise UsageError(f"{text}: sweep each environment by itself")
    return replace(traits, files={file: digest for one in found.values() for file, digest in one.files.items()})


def _describe_within(environment: str, impl: str, executor: Executor) -> Traits:
    found = executor.ask("describe", Case(impl, seq_len=1, d_model=1, num_heads=1, env=environment))
    refused = found.values.get("refused") if found.ok else found.reason
    if refused:
        where = "" if tuple(executor.environments) == (OWN_ENVIRONMENT,) else f"env={environment}: "
        raise UsageError(f"{where}impl '{impl}': {refused}")
    return Traits(found.values["family"], found.values["has_heads"], found.values["files"])


class LayerOptions:
    """The options of layers, each layer described once in each environment."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known: dict[tuple[str, str], dict[str, Any]] = {}

    def of(self, impl: str, env: str) -> dict[str, str | None] | None:
        """The layer's options with their defaults; None if it cannot be imported, or takes any keyword."""
        options: dict[str, str | None] | None = self._described(impl, env).get("options")
        return options

    def axes_text(self, impl: str) -> str | None:
        """The sizes among the layer's own axes, as `own_axes.axes_text` returns them; None without any."""
        text: str | None = self._described(impl, OWN_ENVIRONMENT).get("own_axes")
        return text

    def _described(self, impl: str, env: str) -> dict[str, Any]:
        if (impl, env) not in self._known:
            found = self._executor.ask("describe", Case(impl, seq_len=1, d_model=1, num_heads=1, env=env))
            self._known[impl, env] = dict(found.values) if found.ok else {}
        return self._known[impl, env]

    def check(self, config: SweepConfig) -> None:
        """Raise UsageError with the layers that lack an option that the cases name."""
        texts = {*config.axes["options"], *(point["options"] for point in config.points if "options" in point)}
        wanted = dict.fromkeys(name for text in sorted(texts) for name in options_of(text))
        if not wanted:
            return
        of_layer: dict[str, dict[str, str | None]] = {}
        for impl, env in product(config.axes["impl"], self._executor.environments):
            known = self.of(impl, env)
            if known is not None:
                of_layer[impl] = known
        check_taken(wanted, of_layer)

    def usual(self, cases: Iterable[Case]) -> list[Case]:
        """The different cases, without options that have their default: with those, a case is the usual one."""
        found: dict[Case, None] = {}
        for case in cases:
            defaults = self.of(case.impl, case.env) if case.options != NO_OPTIONS else None
            found[replace(case, options=without_defaults(case.options, defaults)) if defaults else case] = None
        return list(found)
