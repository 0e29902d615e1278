"""A random walk: apply faults from the table to a small sweep, and continue the sweep until it is done.

The invariants are checked after every sweep. The same seed repeats a walk.
"""

import random
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from core.faults.disks import mounted
from core.faults.driver import DEADLINE_S
from core.faults.invariants import measured_twice, not_yet_done, wrong_with
from core.faults.place import ENOUGH_MEMORY, LITTLE_MEMORY, Fault, Place
from core.faults.table import FAULTS, LAYERS

_SWEEPS, _MOST_FAULTS, _MOST_LAYERS = 4, 3, 3
_MEMORY_SHARE = 0.1
# An undisturbed sweep finishes at once. One or two more may be needed if a case is retried.
_MOST_UNDISTURBED = 4
_DISK = "64m"
_UNDISTURBED = (0, 3)


@dataclass
class Swept:
    """One sweep: its faults, those that had an effect, its exit status, and the violations."""

    dealt: tuple[Fault, ...]
    arrived: list[str] = field(default_factory=list)
    end: int | None = None
    wrong: list[str] = field(default_factory=list)


@dataclass
class Walk:
    """All sweeps of a walk. `until_done` is the number of undisturbed sweeps at its end."""

    layers: tuple[str, ...]
    memory_limited: bool
    sweeps: list[Swept] = field(default_factory=list)
    until_done: int = 0

    @property
    def dealt(self) -> int:
        return sum(len(swept.dealt) for swept in self.sweeps) + len(self.layers) + self.memory_limited

    @property
    def wrong(self) -> list[str]:
        """All violations, each with its sweep and faults."""
        return [
            f"sweep {number} ({', '.join(fault.name for fault in swept.dealt) or 'no fault'}; "
            f"layers {', '.join(self.layers) or 'good'}): {wrong}"
            for number, swept in enumerate(self.sweeps, start=1)
            for wrong in swept.wrong
        ]


def random_walk(here: Path, seed: str) -> Walk:
    """Do a walk whose faults and layers are drawn at random from the table."""
    draw = random.Random(seed)
    memory_limited = draw.random() < _MEMORY_SHARE
    layers = () if memory_limited else draw.sample(sorted(LAYERS), draw.randrange(_MOST_LAYERS + 1))
    kinds: dict[str, list[str]] = {}
    for fault in FAULTS.values():
        kinds.setdefault(fault.kind.split()[0], []).append(fault.name)
    steps = [
        [draw.choice(kinds[draw.choice(sorted(kinds))]) for _ in range(draw.randint(1, _MOST_FAULTS))]
        for _ in range(_SWEEPS)
    ]
    return walk(here, steps, layers, LITTLE_MEMORY if memory_limited else ENOUGH_MEMORY, draw)


def walk(
    here: Path,
    steps: Sequence[Sequence[str]],
    layers: Sequence[str] = (),
    memory_limit: str = ENOUGH_MEMORY,
    draw: random.Random | None = None,
) -> Walk:
    """Sweep below `here`, once with the faults of each step, then without faults until the run is done."""
    place = Place(here, draw or random.Random(0), layers, memory_limit)
    walked = Walk(tuple(layers), place.memory_limited)
    full_disks = any(FAULTS[name].kind == "disk" for step in steps for name in step)
    with mounted(place.cwd, _DISK) if full_disks else nullcontext():
        for step in steps:
            walked.sweeps.append(_sweep(place, [FAULTS[name] for name in dict.fromkeys(step)]))
        lacking = ["no sweep"]
        while lacking and walked.until_done < _MOST_UNDISTURBED:
            walked.until_done += 1
            walked.sweeps.append(_sweep(place, ()))
            lacking = not_yet_done(place)
        wrong = walked.sweeps[-1].wrong
        wrong += [f"it is not done after {walked.until_done} sweeps: {one}" for one in lacking]
        if not place.damaged:
            wrong += measured_twice(place.run)
    place.tmp.rmdir()
    return walked


def _sweep(place: Place, faults: Sequence[Fault]) -> Swept:
    """Sweep once. Faults between two sweeps are applied first, the others to the running sweep."""
    swept = Swept(tuple(faults))
    if any(fault.meanwhile for fault in faults):
        place.rewind()
    for fault in faults:
        if not fault.meanwhile and fault.deal(place, None):
            swept.arrived.append(fault.name)
    refused = any(fault.is_refused for fault in faults if fault.name in swept.arrived)
    with place.sweep() as driver:
        for fault in faults:
            if fault.meanwhile and fault.deal(place, driver):
                swept.arrived.append(fault.name)
        try:
            swept.end = driver.ended(DEADLINE_S)
        except subprocess.TimeoutExpired:
            swept.wrong.append(f"it has not ended after {DEADLINE_S:g} s")
            place.kill_what_remains()
        else:
            ends = {end for fault in faults for end in fault.ends} | set(_UNDISTURBED)
            swept.wrong += wrong_with(place, swept.end, driver.err, ends - set(_UNDISTURBED) if refused else ends)
            place.kill_what_remains()
    place.take_back()
    swept.wrong += place.wrong
    place.wrong.clear()
    return swept
