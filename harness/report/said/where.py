"""What tells one setting from the others that are spoken of."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.findings.series import Setting

# Their values say by themselves what they are of.
_BARE = ("mode", "dtype", "device")
_NAMES = {"real_share": "real tokens", "source_len": "source"}


@dataclass(frozen=True)
class Where:
    """Names a setting by what tells it from the run's others; empty where there is but one."""

    varying: tuple[str, ...]

    @classmethod
    def among(cls, settings: Iterable[Setting]) -> "Where":
        """Of all the settings that are spoken of."""
        seen = list(dict.fromkeys(settings))
        axes = ("mode", "dtype", "device", "mask", "threads", "allocator", "real_share", "source_len")
        return cls(tuple(axis for axis in axes if len({getattr(one, axis) for one in seen}) > 1))

    def beside_mode(self) -> "Where":
        """The same where the mode is told anyway."""
        return Where(tuple(axis for axis in self.varying if axis != "mode"))

    def __call__(self, setting: Setting) -> str:
        return ", ".join(
            getattr(setting, axis) if axis in _BARE else f"{_NAMES.get(axis, axis)} {getattr(setting, axis)}"
            for axis in self.varying
        )
