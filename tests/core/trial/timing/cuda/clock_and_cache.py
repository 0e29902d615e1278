"""The clock rate of a simulated GPU, and its L2 cache."""

import math
from dataclasses import dataclass

# A newly read byte evicts this many bytes of others: the two hashed halves of a cache do not fill evenly.
EVICTED = 0.6


@dataclass
class SimClock:
    """The clock rate: `boost_hz` at rest. Under load it approaches `sustained_hz` with the time constant `tau_s`.

    With `rest_hz`, that is its rate at rest instead. It begins there, and returns to it twenty times as slowly.
    From `falls_at_s` on, it is lowered to the share `falls_to`, as when the GPU is too hot.
    """

    boost_hz: float = 1e9
    sustained_hz: float | None = None
    tau_s: float = 30e-3
    rest_hz: float | None = None
    falls_at_s: float = math.inf
    falls_to: float = 0.75
    _at_s: float = 0.0
    _hz: float = 0.0

    def at(self, seconds: float) -> float:
        """The clock rate at a time at which the GPU was idle since the last work."""
        self._relax(self.rest_hz or self.boost_hz, seconds, 1 if self.rest_hz is None else 20)
        return self._hz * (self.falls_to if seconds >= self.falls_at_s else 1.0)

    def worked(self, until_s: float) -> None:
        """The GPU has worked until this time."""
        self._relax(self.sustained_hz or self.boost_hz, until_s)

    def _relax(self, target_hz: float, now_s: float, slowly: int = 1) -> None:
        share = math.exp(-max(0.0, now_s - self._at_s) / (slowly * self.tau_s))
        self._hz = target_hz + ((self._hz or self.rest_hz or self.boost_hz) - target_hz) * share
        self._at_s = max(now_s, self._at_s)


class SimL2:
    """The L2 cache: how many bytes of each array it holds, and how many of them are dirty."""

    def __init__(self, size: int, evicted: float = EVICTED) -> None:
        self.size, self.evicted = size, evicted
        # Of each array: the bytes held and the dirty ones, as they were when the logarithm of what survived was this.
        self._held: dict[str, tuple[float, float, float]] = {}
        self._survived, self._dirty = 0.0, 0.0

    def traffic(self, array: str, nbytes: int, write: bool) -> float:
        """The bytes that cross to and from memory when the array is read or overwritten."""
        held, dirty, since = self._held.get(array, (0.0, 0.0, self._survived))
        share = math.exp(self._survived - since)
        held, dirty = share * held, share * dirty
        misses = nbytes - min(held, nbytes) if nbytes <= self.size else nbytes
        surviving = max(0.0, 1 - self.evicted * misses / self.size)
        others = max(0.0, self._dirty - dirty)
        if surviving:
            self._survived += math.log(surviving)
        else:
            self._held.clear()
        held = min(nbytes, self.size)
        dirty = held if write else dirty * (nbytes <= self.size)
        self._held[array] = held, dirty, self._survived
        self._dirty = surviving * others + dirty
        streamed = max(0, nbytes - self.size) if write else 0
        return (1 - surviving) * others + streamed + (0.0 if write else misses)
