"""A random walk: faults from the table are dealt to a small sweep, which is continued in between and until it is done.

After every sweep its invariants are checked. A walk is repeated by its seed.
"""

import random
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from faults.disks import mounted
from faults.driver import DEADLINE_S
from faults.invariants import measured_twice, not_yet_done, wrong_with
from faults.place import ENOUGH_MEMORY, LITTLE_MEMORY, Fault, Place
from faults.table import FAULTS, LAYERS

_SWEEPS, _MOST_FAULTS, _MOST_LAYERS = 4, 3, 3
_MEMORY_SHARE = 0.1
# A sweep that is disturbed no more comes to its end at once; another one or two, where a case is tried again.
_MOST_UNDISTURBED = 4
_DISK = "64m"
_UNDISTURBED = (0, 3)


@dataclass
class Swept:
    """One sweep: the faults that were dealt to it and those that arrived, how it ended, and what was wrong then."""

    dealt: tuple[Fault, ...]
    arrived: list[str] = field(default_factory=list)
    end: int | None = None
    wrong: list[str] = field(default_factory=list)


@dataclass
class Walk:
    """All sweeps of a walk, and how many of them it took at the end until it was done."""

    layers: tuple[str, ...]
    memory_limited: bool
    sweeps: list[Swept] = field(default_factory=list)
    until_done: int = 0

    @property
    def dealt(self) -> int:
        return sum(len(swept.dealt) for swept in self.sweeps) + len(self.layers) + self.memory_limited

    @property
    def wrong(self) -> list[str]:
        """Everything that was wrong, and with which sweep and faults."""
        return [
            f"sweep {number} ({', '.join(fault.name for fault in swept.dealt) or 'no fault'}; "
            f"layers {', '.join(self.layers) or 'good'}): {wrong}"
            for number, swept in enumerate(self.sweeps, start=1)
            for wrong in swept.wrong
        ]


def random_walk(here: Path, seed: str) -> Walk:
    """A walk whose faults and layers are drawn from the table."""
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
    """Sweep below `here`: each step deals its faults to one sweep; then without any until it is done."""
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
    """Sweep once; deal first what is dealt between two sweeps, then the others to the sweep that runs."""
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
