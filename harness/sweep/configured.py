"""A configuration put to use: the runner that it asks for, and whether its layers and devices can be had there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import catalog
from harness.case import Case
from harness.catalog import Traits
from harness.config import SweepConfig
from harness.errors import UsageError
from harness.sweep.runner import Runner


def runner_of(config: SweepConfig, compile_cache: Path | None, path: Sequence[str] | None = None) -> Runner:
    """A runner of trials as configured; `path` is where they look for layers, if not where this process does."""
    return Runner(
        seed=config.seed,
        trial_s=config.precision.trial_s,
        timeout_s=config.precision.timeout_s,
        memory_limit=config.memory_limit,
        compile_timeout_s=config.compile_timeout_s,
        compile_cache=compile_cache,
        path=path,
    )


def ask(runner: Runner, purpose: str, case: Case | None = None) -> dict[str, Any]:
    """The outcome of a trial that measures nothing; asked again where it was killed, which may be by chance."""
    found = runner.run(purpose, case)
    return runner.run(purpose, case) if found["status"] == "killed" else found


def describe_impl(impl: str, runner: Runner) -> Traits:
    """The impl's traits; somebody's own is looked at in a trial: its module is not ours to import.

    Raises UsageError where its module or class cannot be had, or its claims cannot be read.
    """
    if not catalog.is_foreign(impl):
        return catalog.traits(impl)
    found = ask(runner, "describe", Case(impl, seq_len=1, d_model=1, num_heads=1))
    if found["status"] != "ok":
        raise UsageError(f"impl '{impl}': {found['reason']}")
    if found.get("claims_refused"):
        raise UsageError(f"impl '{impl}': {found['claims_refused']}")
    return Traits(found["family"], found["has_heads"], found["files"])


def check_devices(config: SweepConfig, runner: Runner) -> None:
    """Raise UsageError where the configuration asks for a device that torch does not see here."""
    if "cuda" in config.axes["device"] and not ask(runner, "machine").get("gpu"):
        instead = "; scale=cpu is for a machine without one" if config.paper.get("scale") == "full" else ""
        raise UsageError(f"device=cuda: torch sees no CUDA device here{instead}")
