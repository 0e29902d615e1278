"""What trials find out about layers before anything is measured: the traits of each, and its options.

This process never imports a user's module.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain, product

from harness.core.config import SweepConfig
from harness.core.layers import layer_lookup
from harness.core.layers.layer_lookup import Traits
from harness.core.model import own_axes
from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.layer_options import NO_OPTIONS, OPTION, joined, options_of, without_defaults
from harness.core.model.own_axes import axes_of_text
from harness.core.model.sweep_axes import OWN_ENVIRONMENT, Case

from .executor import Executor
from .outcome import TrialOutcome


class DescribedLayers:
    """The traits and options of layers. A trial describes a layer, once in each environment."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._outcomes: dict[tuple[str, str], TrialOutcome] = {}

    def _outcome(self, impl: str, env: str) -> TrialOutcome:
        if (impl, env) not in self._outcomes:
            self._outcomes[impl, env] = self._executor.ask("describe", Case(impl, 1, 1, 1, env=env))
        return self._outcomes[impl, env]

    def traits(self, impl: str) -> Traits:
        """The traits of a layer, which are known without a trial for one of the registry.

        Raises UsageError if the module, the class or its reference cannot be loaded, if its claims are not valid, or if
        its traits differ between environments.
        """
        if not layer_lookup.is_foreign(impl):
            for environment in self._executor.environments if layer_lookup.package_of(impl) else ():
                self._outcome(impl, environment)  # its package may take seconds to import: once for all trials
            return layer_lookup.traits(impl)
        found = {environment: self._traits_within(environment, impl) for environment in self._executor.environments}
        (first, traits), *others = found.items()
        for environment, other in others:
            if other != traits:
                text = f"impl '{impl}' has another family or other heads in env={environment} than in env={first}"
                raise UsageError(f"{text}: sweep each environment by itself")
        return replace(traits, files={file: digest for one in found.values() for file, digest in one.files.items()})

    def _traits_within(self, environment: str, impl: str) -> Traits:
        found = self._outcome(impl, environment)
        refused = found.values.get("refused") if found.ok else found.reason
        if refused:
            where = "" if tuple(self._executor.environments) == (OWN_ENVIRONMENT,) else f"env={environment}: "
            raise UsageError(f"{where}impl '{impl}': {refused}")
        known = found.values
        return Traits(known["family"], known["has_heads"], known["files"], known.get("own_axes"))

    def options(self, impl: str, env: str) -> dict[str, str | None] | None:
        """The layer's options with their defaults; None if it cannot be imported, or takes any keyword."""
        options: dict[str, str | None] | None = self._outcome(impl, env).values.get("options")
        return options

    def axes_text(self, impl: str, env: str = OWN_ENVIRONMENT) -> str | None:
        """The sizes among the layer's own axes, as `own_axes.axes_text` returns them; None without any."""
        text: str | None = self._outcome(impl, env).values.get("own_axes")
        return text

    def lacked(self, config: SweepConfig, is_strict: bool = True) -> dict[str, list[str]]:
        """The layers that lack an option that the cases name, if it is an own axis of all others.

        Those layers are compared with each value of it. If a layer lacks any other option, raises UsageError or, unless
        `is_strict`, leaves it to the trials to refuse the case.
        """
        texts = {*config.axes["options"], *(point["options"] for point in config.points if "options" in point)}
        found: dict[str, list[str]] = {name: [] for text in sorted(texts) for name in options_of(text)}
        layers = product(config.axes["impl"], self._executor.environments) if found else ()
        described = [(layer, known) for layer in layers if (known := self.options(*layer)) is not None]
        for name in found:
            without = {impl: known for (impl, _), known in described if name not in known}
            others = [axes_of_text(self.axes_text(*layer)) for layer, _ in described if layer[0] not in without]
            is_axis = bool(others) and all(name in axes for axes in others)
            found[name] = list(without) if is_axis else []
            if without and not is_axis and is_strict:
                known = dict.fromkeys(chain(*without.values()))
                apart = f": measure them apart, or declare '{name}' in the axes of the others"
                instead = apart if others else did_you_mean(name, known)
                verb = "has" if len(without) == 1 else "have"
                raise UsageError(f"{OPTION}{name}: {', '.join(without)} {verb} no option '{name}'{instead}")
        return {name: impls for name, impls in found.items() if impls}

    def without_default_options(self, cases: Iterable[Case], lacked: Mapping[str, Collection[str]]) -> list[Case]:
        """The different cases, each without the options that have their default.

        A layer without an own axis, as `lacked` returns them, is a single case, as a layer without heads is. Raises
        UsageError for a value that no size along an own axis can have.
        """
        found: dict[Case, None] = {}
        for case in cases:
            parts = [(part, lacked.get(part.partition("=")[0], ())) for part in case.options.split("+")]
            case = replace(case, options=joined(part for part, impls in parts if case.impl not in impls))
            if case.options != NO_OPTIONS:
                own_axes.check_sizes(case.impl, self.axes_text(case.impl, case.env), case.options)
                case = replace(case, options=without_defaults(case.options, self.options(case.impl, case.env) or {}))
            found[case] = None
        return list(found)
