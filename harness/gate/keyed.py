"""Names of a baseline's entries: `key=value` for everything that distinguishes an entry, like a case's key."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

from harness import catalog
from harness.case import AXES, DEFAULTS, Case
from harness.config.axes import check_axes
from harness.findings.series import Setting

_TYPES = get_type_hints(Case)
# Common values, which the readable form leaves out.
_UNSAID = {"mode": "forward", "dtype": "float32", "device": "cpu", "allocator": "default", "real_share": 1.0}
_SETTING = tuple(field.name for field in fields(Setting))


@dataclass(frozen=True, order=True)
class Named:
    """The name of a cost model or claim: its impl, its setting, and its quantity (`memory`, `work`, …)."""

    impl: str
    setting: tuple[Any, ...]
    what: str

    @classmethod
    def of(cls, impl: str, setting: Setting, what: str) -> "Named":
        """The name for a quantity of an impl in a setting."""
        return cls(impl, tuple(getattr(setting, name) for name in _SETTING), what)

    @property
    def key(self) -> str:
        """The key in the file: unique, stable, and one line."""
        held = {"impl": self.impl, **dict(zip(_SETTING, self.setting, strict=True)), "of": self.what}
        return " ".join(f"{name}={value}" for name, value in held.items())

    @property
    def subject(self) -> str:
        """The readable form: the impl, and whatever is unusual in its setting."""
        return " ".join([self.impl, *_unusual(dict(zip(_SETTING, self.setting, strict=True)))])


def group(case: Case) -> tuple[str, tuple[Any, ...]]:
    """The impl and setting of a case. Cases with the same pair share their cost models and claims."""
    return case.impl, tuple(getattr(case, name) for name in _SETTING)


def subject(case: Case) -> str:
    """A case in readable form: its sizes, and whatever is unusual. No two cases have the same."""
    return f"{case.impl} {where(case)}"


def where(case: Case) -> str:
    """The readable form without the impl: `n=2048 d=128 h=8`."""
    source = [f"m={case.source_len}"] if case.source_len else []
    batch = [f"b={case.batch_size}"] if case.batch_size > 1 else []
    sizes = [f"n={case.seq_len}", *source, f"d={case.d_model}", f"h={case.num_heads}", *batch]
    return " ".join([*sizes, *_unusual({name: getattr(case, name) for name in _SETTING if name != "source_len"})])


def _unusual(setting: Mapping[str, Any]) -> list[str]:
    said = [str(value) for name, value in setting.items() if name in _UNSAID and value != _UNSAID[name]]
    if setting["mask"] != "none":
        said.append(setting["mask"])
    if setting.get("source_len"):
        said.append(f"m={setting['source_len']}")
    return [*said, f"threads={setting['threads']}"] if setting["threads"] > 1 else said


def read_case(key: str) -> Case:
    """Parse a case's key. Raises ValueError, with the reason, for anything else."""
    return _case(_parts(key, "seq_len"))


def read_name(key: str) -> Named:
    """Parse the key of a cost model or claim. Raises ValueError, with the reason, for anything else."""
    parts = _parts(key, "mode")
    what = parts.pop("of", "")
    if not what:
        raise ValueError("it does not say of what it is (of=…)")
    # A setting has no sizes: complete it to a case of size 1, which can be checked.
    sizes = {name: "1" for name in ("seq_len", "d_model", "num_heads") if name not in parts}
    impl, setting = group(_case({**parts, **sizes}))
    return Named(impl, setting, what)


def _parts(key: str, first: str) -> dict[str, str]:
    """The values by axis. `first` is the axis that follows the impl."""
    # An impl can be a file's path, which may contain spaces.
    impl, begins, others = key.rpartition(f" {first}=")
    if not begins or not impl.removeprefix("impl=") or not impl.startswith("impl="):
        raise ValueError(f"it does not begin with impl=… {first}=…")
    parts = {"impl": impl.removeprefix("impl=")}
    for word in f"{first}={others}".split(" "):
        name, equals, value = word.partition("=")
        if not equals or not value or name in parts or name not in (*AXES, "of"):
            raise ValueError(f"'{word}' is not of the form axis=value")
        parts[name] = value
    return parts


def _case(parts: Mapping[str, str]) -> Case:
    lacking = [name for name in AXES if name not in parts and name not in DEFAULTS]
    if lacking:
        raise ValueError(f"it has no {lacking[0]}")
    if "of" in parts:
        raise ValueError("a case is not of anything")
    values = {name: _TYPES[name](text) for name, text in parts.items()}
    case = Case(**values)
    # A layer that no longer exists does not damage the file: the measurement will report it. A known impl replaces it
    # here, so that only the other axes are checked.
    check_axes(replace(case, impl=catalog.names()[0]).as_dict())
    return case
