"""What trials find out about layers before anything is measured: the traits of each, and its options.

This process never imports a user's module.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from harness import layer_lookup
from harness.config import SweepConfig
from harness.errors import UsageError
from harness.layer_lookup import Traits
from harness.layer_options import NO_OPTIONS, check_taken, options_of, without_defaults
from harness.measure.executor import Executor
from harness.measure.outcome import TrialOutcome
from harness.sweep_axes import OWN_ENVIRONMENT, Case


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
        return Traits(found.values["family"], found.values["has_heads"], found.values["files"])

    def options(self, impl: str, env: str) -> dict[str, str | None] | None:
        """The layer's options with their defaults; None if it cannot be imported, or takes any keyword."""
        found = self._outcome(impl, env)
        options: dict[str, str | None] | None = found.values.get("options") if found.ok else None
        return options

    def axes_text(self, impl: str) -> str | None:
        """The sizes among the layer's own axes, as `own_axes.axes_text` returns them; None without any."""
        found = self._outcome(impl, OWN_ENVIRONMENT)
        text: str | None = found.values.get("own_axes") if found.ok else None
        return text

    def check(self, config: SweepConfig) -> None:
        """Raise UsageError with the layers that lack an option that the cases name."""
        texts = {*config.axes["options"], *(point["options"] for point in config.points if "options" in point)}
        wanted = dict.fromkeys(name for text in sorted(texts) for name in options_of(text))
        if not wanted:
            return
        of_layer: dict[str, dict[str, str | None]] = {}
        for impl, env in product(config.axes["impl"], self._executor.environments):
            known = self.options(impl, env)
            if known is not None:
                of_layer[impl] = known
        check_taken(wanted, of_layer)

    def usual(self, cases: Iterable[Case]) -> list[Case]:
        """The different cases, without options that have their default: with those, a case is the usual one."""
        found: dict[Case, None] = {}
        for case in cases:
            defaults = self.options(case.impl, case.env) if case.options != NO_OPTIONS else None
            found[replace(case, options=without_defaults(case.options, defaults)) if defaults else case] = None
        return list(found)
