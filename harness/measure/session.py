"""Set up a measurement from its configuration: the runner, the layers, the devices and the output directory.

The output directory holds a new run, a run to continue, or a run that replaces one set aside.
"""

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness import registry, store
from harness.case import Case
from harness.config import SweepConfig
from harness.config.compose import differences
from harness.errors import UsageError
from harness.files import MOST_YAML_BYTES, read_text, write_atomically
from harness.former_names import present
from harness.machine import unlike
from harness.measure.executor import Executor
from harness.measure.scheduler import read_resume_state
from harness.registry import Traits
from harness.store.directory import RESULTS

# The directory of compiled code, below the output directory, shared by the run's trials. It exists only if a layer
# compiles.
COMPILE_CACHE = "compile-cache"


def runner_of(config: SweepConfig, compile_cache: Path | None, path: Sequence[str] | None = None) -> Executor:
    """A runner of trials as configured. `path` replaces this process's `sys.path` in the search for layers."""
    return Executor(
        seed=config.seed,
        trial_s=config.precision.trial_s,
        timeout_s=config.precision.timeout_s,
        memory_limit=config.memory_limit,
        compile_timeout_s=config.compile_timeout_s,
        compile_cache=compile_cache,
        path=path,
    )


def run_twice_if_killed(runner: Executor, purpose: str, case: Case | None = None) -> dict[str, Any]:
    """Run a trial that measures nothing and return its outcome.

    If the trial is killed, it is run once more, because the kill may have been by chance.
    """
    found = runner.run(purpose, case)
    return runner.run(purpose, case) if found["status"] == "killed" else found


def describe_impl(impl: str, runner: Executor) -> Traits:
    """The traits of a layer. A trial describes a user's own layer, so that this process never imports its module.

    Raises UsageError if the module or the class cannot be loaded, or if its claims are not valid.
    """
    if not registry.is_foreign(impl):
        return registry.traits(impl)
    found = run_twice_if_killed(runner, "describe", Case(impl, seq_len=1, d_model=1, num_heads=1))
    if found["status"] != "ok":
        raise UsageError(f"impl '{impl}': {found['reason']}")
    if found.get("claims_refused"):
        raise UsageError(f"impl '{impl}': {found['claims_refused']}")
    return Traits(found["family"], found["has_heads"], found["files"])


def check_devices(config: SweepConfig, runner: Executor) -> None:
    """Raise UsageError if the configuration uses CUDA and torch sees no CUDA device."""
    if "cuda" in config.axes["device"] and not run_twice_if_killed(runner, "machine").get("gpu"):
        instead = "; scale=cpu is for a machine without one" if config.paper.get("scale") == "full" else ""
        raise UsageError(f"device=cuda: torch sees no CUDA device here{instead}")


# Key in machine.json of the layers' code, by impl.
CODE = "layers"
# Number of differences that an error message lists.
_MOST_TOLD = 6


def output_directory(config: SweepConfig) -> Path:
    """The configured directory, or a new one under `results/` named after the current time."""
    if config.out is not None:
        return config.out
    named = RESULTS / time.strftime("%Y-%m-%d_%H-%M-%S")
    names = itertools.chain([named], (named.with_name(f"{named.name}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not name.exists())  # a name may exist if the clock was set back


def check_output_directory(out: Path, config: SweepConfig, fresh: bool) -> bool:
    """Whether `out` holds a run to continue. Writes nothing.

    With `fresh`, an existing run is not continued. Raises UsageError if a run can be neither continued nor created.
    """
    if fresh and (store.is_run(out) or store.lacks_config(out)):
        return False
    if store.lacks_config(out):
        raise UsageError(f"out={out} has rows/ and no {store.CONFIG}: put that back, or give --fresh to set it aside")
    if not store.is_run(out):
        store.check_new(out)
        return False
    try:
        before = yaml.safe_load(read_text(out / store.CONFIG, MOST_YAML_BYTES))
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError):
        before = None
    if not isinstance(before, Mapping):
        raise UsageError(f"{out / store.CONFIG} is not a sweep's configuration: --fresh sets that run aside")
    _raise_if_different(out, "is another sweep", differences(present(before), yaml.safe_load(config.yaml)))
    return True


def update_paper(out: Path, config: SweepConfig) -> None:
    """Update the paper in the run's configuration. A corrected figure in its file needs no new measurement."""
    path = out / store.CONFIG
    before = yaml.safe_load(read_text(path, MOST_YAML_BYTES))
    if config.paper and before.get("paper") != config.paper:
        renewed = {**before, "paper": yaml.safe_load(config.yaml)["paper"]}
        write_atomically(path, yaml.safe_dump(renewed, sort_keys=False, allow_unicode=True))


def check_machine(out: Path, machine: Mapping[str, Any]) -> None:
    """Raise UsageError if times of the run at `out` and of this machine cannot be compared."""
    for before in store.machines(out).values():
        _raise_if_different(out, "was measured on another machine", unlike(before, machine))


def code_digests(traits: Mapping[str, Traits]) -> dict[str, dict[str, str]]:
    """The digests of each layer's files, by impl, in the form in which a run stores them."""
    here, ours = Path.cwd(), registry.files_of_builtin_layers()
    return {
        impl: registry.shown_digests(known.files, here) if registry.is_foreign(impl) else ours
        for impl, known in traits.items()
    }


def check_code(out: Path, code: Mapping[str, Mapping[str, str]], retry: Collection[str]) -> None:
    """Raise UsageError if a layer's code has changed and the run at `out` would keep rows of the old code.

    Runs of older versions do not store the code of their layers. They pass this check.
    """
    found = _changed(out, code)
    if not found:
        return
    past = read_resume_state(out)[0].reopening(retry)
    kept = {case.impl for case in (*past.trials, *past.facts)}
    ended: dict[str, set[str]] = {}
    for case, (status, _) in past.failures.items():
        ended.setdefault(case.impl, set()).add(status)
    told = [f"{impl} in {', '.join(files)}" for impl, files in found.items() if impl in kept or impl in ended]
    if not told:
        return
    only_ended = {status for impl in found for status in ended.get(impl, ())} if not kept & found.keys() else set()
    # A layer that has no numbers yet may be measured again: nothing mixes with its new code.
    again = f", or take them again with retry={','.join(sorted(only_ended))}" if only_ended else ""
    _raise_if_different(out, "has rows of other code", [f"changed since: {'; '.join(told)}"], again)


def update_code_digests(out: Path, code: Mapping[str, Mapping[str, str]]) -> None:
    """Store the new code of layers. `check_code` has made sure that no results of their old code are kept."""
    if _changed(out, code):
        store.remember(out, CODE, code)


def _changed(out: Path, code: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    before = store.recalled(out, CODE)
    return {
        impl: files
        for impl, now in code.items()
        if isinstance(before.get(impl), Mapping) and (files := registry.changed_files(before[impl], now))
    }


def _raise_if_different(out: Path, what: str, found: list[str], otherwise: str = "") -> None:
    if found:
        more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
        told = "; ".join(found[:_MOST_TOLD])
        raise UsageError(f"out={out} {what} ({told}{more}): name another, or give --fresh to set it aside{otherwise}")
