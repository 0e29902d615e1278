"""The options of the layers of a session: which ones a layer takes, and which of their values are the defaults."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from harness.config import SweepConfig
from harness.layer_options import NO_OPTIONS, check_taken, options_of
from harness.measure.executor import Executor
from harness.own_axes import without_defaults
from harness.sweep_axes import Case


class OwnOptions:
    """Asks the processes of a session about the options of layers, each layer once in each environment."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known: dict[tuple[str, str], dict[str, str | None] | None] = {}

    def of(self, impl: str, env: str) -> dict[str, str | None] | None:
        """The layer's options with their defaults; None if it cannot be imported, or takes any keyword."""
        if (impl, env) not in self._known:
            found = self._executor.ask("describe", Case(impl, seq_len=1, d_model=1, num_heads=1, env=env))
            self._known[impl, env] = found.values.get("options") if found.ok else None
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
            usual = self.of(case.impl, case.env) if case.options != NO_OPTIONS else None
            found[replace(case, options=without_defaults(case.options, usual)) if usual else case] = None
        return list(found)
