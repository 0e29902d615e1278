"""What distinguishes one setting from the others that a text mentions."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.findings.series import Setting

# Axes whose values need no name beside them.
_BARE = ("mode", "dtype", "device")
_NAMES = {"real_share": "real tokens", "source_len": "source"}


@dataclass(frozen=True)
class Where:
    """Names a setting by what distinguishes it from the others; the name is empty if there is only one setting."""

    varying: tuple[str, ...]

    @classmethod
    def among(cls, settings: Iterable[Setting]) -> "Where":
        """Make a `Where` for all the settings that a text mentions."""
        seen = list(dict.fromkeys(settings))
        axes = ("mode", "dtype", "device", "mask", "threads", "allocator", "real_share", "source_len")
        return cls(tuple(axis for axis in axes if len({getattr(one, axis) for one in seen}) > 1))

    def beside_mode(self) -> "Where":
        """This `Where` without the mode, for texts that give the mode anyway."""
        return Where(tuple(axis for axis in self.varying if axis != "mode"))

    def __call__(self, setting: Setting) -> str:
        return ", ".join(
            getattr(setting, axis) if axis in _BARE else f"{_NAMES.get(axis, axis)} {getattr(setting, axis)}"
            for axis in self.varying
        )
