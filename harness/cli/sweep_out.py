"""The output directory of a sweep: a new run, a run to continue, or a run that replaces one set aside."""

import itertools
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import catalog, layer_files, store
from harness.bounded_file import MOST_YAML_BYTES, read_text
from harness.catalog import Traits
from harness.config import SweepConfig
from harness.config.difference import differences
from harness.errors import UsageError
from harness.machine import unlike
from harness.summary.past import past_of
from harness.whole_file import write_whole

RESULTS = Path("results")
# Key in machine.json of the layers' code, by impl.
CODE = "layers"
# Number of differences that an error message lists.
_MOST_TOLD = 6


def out_of(config: SweepConfig) -> Path:
    """The configured directory, or a new one under `results/` named after the current time."""
    if config.out is not None:
        return config.out
    named = RESULTS / time.strftime("%Y-%m-%d_%H-%M-%S")
    names = itertools.chain([named], (named.with_name(f"{named.name}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not name.exists())  # a name may exist if the clock was set back


def check_out(out: Path, config: SweepConfig, fresh: bool) -> bool:
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
    _refuse(out, "is another sweep", differences(before, yaml.safe_load(config.yaml)))
    return True


def renew_paper(out: Path, config: SweepConfig) -> None:
    """Update the paper in the run's configuration. A corrected figure in its file needs no new measurement."""
    path = out / store.CONFIG
    before = yaml.safe_load(read_text(path, MOST_YAML_BYTES))
    if config.paper and before.get("paper") != config.paper:
        renewed = {**before, "paper": yaml.safe_load(config.yaml)["paper"]}
        write_whole(path, yaml.safe_dump(renewed, sort_keys=False, allow_unicode=True))


def check_machine(out: Path, machine: Mapping[str, Any]) -> None:
    """Raise UsageError if times of the run at `out` and of this machine cannot be compared."""
    for before in store.machines(out).values():
        _refuse(out, "was measured on another machine", unlike(before, machine))


def code_of(traits: Mapping[str, Traits]) -> dict[str, dict[str, str]]:
    """The digests of each layer's files, by impl, in the form in which a run stores them."""
    here, ours = Path.cwd(), layer_files.of_ours()
    return {
        impl: layer_files.as_told(known.files, here) if catalog.is_foreign(impl) else ours
        for impl, known in traits.items()
    }


def check_code(out: Path, code: Mapping[str, Mapping[str, str]], retry: Collection[str]) -> None:
    """Raise UsageError if a layer's code has changed and the run at `out` would keep rows of the old code.

    Runs of older versions do not store the code of their layers. They pass this check.
    """
    found = _changed(out, code)
    if not found:
        return
    past = past_of(out)[0].reopening(retry)
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
    _refuse(out, "has rows of other code", [f"changed since: {'; '.join(told)}"], again)


def renew_code(out: Path, code: Mapping[str, Mapping[str, str]]) -> None:
    """Store the new code of layers. `check_code` has made sure that no results of their old code are kept."""
    if _changed(out, code):
        store.remember(out, CODE, code)


def _changed(out: Path, code: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    before = store.remembered(out, CODE)
    return {
        impl: files
        for impl, now in code.items()
        if isinstance(before.get(impl), Mapping) and (files := layer_files.changed(before[impl], now))
    }


def _refuse(out: Path, what: str, found: list[str], otherwise: str = "") -> None:
    if found:
        more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
        told = "; ".join(found[:_MOST_TOLD])
        raise UsageError(f"out={out} {what} ({told}{more}): name another, or give --fresh to set it aside{otherwise}")
