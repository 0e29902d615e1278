"""Set up a sweep from its configuration: make the runner, describe the layers and check the devices."""

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
    """A runner of trials as configured. `path` replaces this process's `sys.path` in the search for layers."""
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
    """Run a trial that measures nothing and return its outcome.

    If the trial is killed, it is run once more, because the kill may have been by chance.
    """
    found = runner.run(purpose, case)
    return runner.run(purpose, case) if found["status"] == "killed" else found


def describe_impl(impl: str, runner: Runner) -> Traits:
    """The traits of a layer. A trial describes a user's own layer, so that this process never imports its module.

    Raises UsageError if the module or the class cannot be loaded, or if its claims are not valid.
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
    """Raise UsageError if the configuration uses CUDA and torch sees no CUDA device."""
    if "cuda" in config.axes["device"] and not ask(runner, "machine").get("gpu"):
        instead = "; scale=cpu is for a machine without one" if config.paper.get("scale") == "full" else ""
        raise UsageError(f"device=cuda: torch sees no CUDA device here{instead}")
