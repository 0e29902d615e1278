"""Where a sweep writes: a new run, one to go on with, or one in the place of another that is set aside."""

import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import store
from harness.config import SweepConfig
from harness.config.difference import differences
from harness.errors import UsageError
from harness.machine import unlike
from harness.whole_file import write_whole

RESULTS = Path("results")
# Of many differences the first ones say what has happened.
_MOST_TOLD = 6


def out_of(config: SweepConfig) -> Path:
    """The directory that is asked for, or else one of today that is free."""
    if config.out is not None:
        return config.out
    named = RESULTS / time.strftime("%Y-%m-%d_%H-%M-%S")
    names = itertools.chain([named], (named.with_name(f"{named.name}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not name.exists())  # the clock may have been set back


def check_out(out: Path, config: SweepConfig, fresh: bool) -> bool:
    """Whether there is a run to go on with. Raises UsageError where neither that nor a new one can be; writes nothing.

    `fresh`: a run that is there is none to go on with.
    """
    if fresh and (store.is_run(out) or store.lacks_config(out)):
        return False
    if store.lacks_config(out):
        raise UsageError(f"out={out} has rows/ and no {store.CONFIG}: put that back, or give --fresh to set it aside")
    if not store.is_run(out):
        store.check_new(out)
        return False
    try:
        before = yaml.safe_load((out / store.CONFIG).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError):
        before = None
    if not isinstance(before, Mapping):
        raise UsageError(f"{out / store.CONFIG} is not a sweep's configuration: --fresh sets that run aside")
    _refuse(out, "is another sweep", differences(before, yaml.safe_load(config.yaml)))
    return True


def renew_paper(out: Path, config: SweepConfig) -> None:
    """Have the run hold what its paper's file says today: a figure that was put right is nothing to measure again."""
    path = out / store.CONFIG
    before = yaml.safe_load(path.read_text(encoding="utf-8"))
    if config.paper and before.get("paper") != config.paper:
        renewed = {**before, "paper": yaml.safe_load(config.yaml)["paper"]}
        write_whole(path, yaml.safe_dump(renewed, sort_keys=False, allow_unicode=True))


def check_machine(out: Path, machine: Mapping[str, Any]) -> None:
    """Raise UsageError where the run at `out` was measured on a machine whose times say nothing of this one's."""
    for before in store.machines(out).values():
        _refuse(out, "was measured on another machine", unlike(before, machine))


def _refuse(out: Path, what: str, found: list[str]) -> None:
    if found:
        more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
        told = "; ".join(found[:_MOST_TOLD])
        raise UsageError(f"out={out} {what} ({told}{more}): name another, or give --fresh to set it aside")
