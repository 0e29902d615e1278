"""The measurements that all tests of a pytest session share, and the cases that a test's arguments describe.

All trials of the session run in one `Executor` with one fork server.
"""

import contextlib
import functools
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from itertools import accumulate, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from harness.core.config.hydra_adapter import conf_directory
from harness.core.config.key_value_options import check_axes, long_names
from harness.core.config.schema import Precision
from harness.core.layers.layer_lookup import Layer
from harness.core.model import own_axes
from harness.core.model.case_grid import grid
from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.layer_options import NO_OPTIONS
from harness.core.model.sweep_axes import AXES, DEFAULTS, Case
from harness.core.results.columns import CaseResult
from harness.core.results.row import StoredRow
from harness.core.results.summarise import summarise
from harness.core.run.executor import Executor
from harness.core.run.scheduler import Watcher
from harness.core.run.session import Phase, Session

_SEED = 0
RowsByCase = dict[Case, list[dict[str, Any]]]


class PytestSession:
    """Runs the sweep's own trials and keeps their rows for the session.

    The facts of a case are taken once, and its times once for each precision. `summary` holds the lines for
    the session's summary. The fork server begins to start at once.
    """

    def __init__(self) -> None:
        self.summary: dict[str, str] = {}
        self._facts: RowsByCase = {}
        self._times: dict[tuple[Case, str], list[dict[str, Any]]] = {}
        self._layers: dict[str, Layer] = {}
        self._session: Session | None = None
        self._started: tuple[Any, ...] = ()
        self._processes = contextlib.ExitStack()
        self._precision = precision_named("quick")
        self._session_for()

    def has_heads(self, impl: str) -> bool:
        """Whether the layer has heads. A trial inspects a layer that is not built in.

        Raises UsageError if the layer cannot be loaded.
        """
        return self._session_for().has_heads(impl)

    def axes_text(self, impl: str) -> str | None:
        """The layer's own axes that are sizes, as `own_axes.axes_text` returns them. Raises as `has_heads` does."""
        return self._session_for().describe(impl).own_axes

    def has_gpu(self, kind: str) -> bool:
        """Whether torch sees a device of this kind, such as `cuda`."""
        seen = self._session_for().executor.ask("machine").values.get("devices", {})
        return bool(seen.get(kind, {}).get("count"))

    def facts(self, cases: Iterable[Case], precision: Precision) -> list[CaseResult]:
        """Verify the cases and return their exact facts. The line of a failed case says why."""
        cases = list(cases)
        missing = [case for case in cases if case not in self._facts]
        if missing:
            self._facts |= self._measured(missing, "prepare")
        return summarise([row for case in cases for row in self._facts[case]], precision)

    def times(self, cases: Sequence[Case], precision: Precision, more: bool = False) -> list[CaseResult]:
        """Return the facts and times of the cases. With `more`, measure as many rounds again and add them."""
        self.facts(cases, precision)
        fine = [case for case in cases if self._facts[case][-1]["status"] == "ok"]
        missing = [case for case in fine if more or (case, repr(precision)) not in self._times]
        if missing:
            rows = self._measured(missing, "time", precision)
            for case in missing:
                kept = self._times.setdefault((case, repr(precision)), [])
                before = max((row["round"] for row in kept), default=0)
                kept += [row | {"round": row["round"] + before} for row in rows.get(case, ())]
        timed = [row for case in fine for row in self._times[case, repr(precision)]]
        rounds = max((row["round"] for row in timed), default=0)
        limits = replace(precision, max_rounds=max(precision.max_rounds, rounds))
        return summarise([row for case in cases for row in self._facts[case]] + timed, limits)

    def close(self) -> None:
        """End every process that was started. Measurements are kept."""
        self._processes.close()
        self._session = None

    def _measured(self, cases: Sequence[Case], phase: Phase, precision: Precision | None = None) -> RowsByCase:
        """Measure the cases, and return the rows of each.

        End all processes if the test is stopped meanwhile, for example by its time limit: a trial may still be running.
        """
        rows = _Rows()
        try:
            self._session_for(precision).measure(cases, rows, _NoScreen(), phase)
        except BaseException:
            self.close()
            raise
        return rows.by_case

    def _session_for(self, precision: Precision | None = None) -> Session:
        """The session with the limits of the precision, or with the latest limits: facts do not depend on them.

        A new one starts if the limits or `sys.path` have changed, for example by a test.
        """
        self._precision = precision or self._precision
        trial_s, timeout_s = self._precision.trial_s, self._precision.timeout_s
        needs = (tuple(sys.path), trial_s, timeout_s)
        if self._session is None or self._started != needs:
            self.close()
            scratch = tempfile.TemporaryDirectory(prefix="attn-harness-", ignore_cleanup_errors=True)
            cache = Path(self._processes.enter_context(scratch))
            executor = Executor(seed=_SEED, trial_s=trial_s, timeout_s=timeout_s, compile_cache=cache)
            self._session = self._processes.enter_context(Session(executor, self._precision, _SEED))
            self._session.layers = self._layers
            self._started = needs
        self._session.precision = self._precision
        return self._session


class _Rows:
    """A sink for a sweep's rows, which keeps them by case."""

    def __init__(self) -> None:
        self.by_case: RowsByCase = {}

    def write(self, row: StoredRow) -> None:
        self.by_case.setdefault(Case.from_dict(row["case"]), []).append(dict(row))


class _NoScreen(Watcher):
    """A watcher that shows nothing: pytest owns the screen."""


def impl_name_of(layer: object) -> str:
    """The name under which a trial's process finds a class or function: `module:Class`, `/path/to/file.py:function`.

    The name is `module:Class` if an import in that process finds the same file. Other processes do not know how pytest
    imports test modules (`--import-mode`). A `layer` that is a name already (`attention.fused`, `module:Class`) is
    returned unchanged.

    Raises UsageError for anything else but a class or function, and for one that no other process could find.
    """
    if isinstance(layer, str):
        return layer
    if isinstance(layer, functools.partial):
        return _name_of_partial(layer)
    if not callable(layer) or not hasattr(layer, "__qualname__"):
        raise UsageError(
            f"{_short(layer)} is neither a class nor a function: give the class itself, as in scaling(MyLayer), which "
            "is built at each size as MyLayer(d_model=…, num_heads=…), or the name of a callable, as 'module:name'"
        )
    if layer.__qualname__.endswith("<lambda>"):
        raise UsageError("a lambda has no name by which another process finds it: give a function of a module")
    if "<locals>" in layer.__qualname__:
        raise UsageError(f"{layer.__qualname__} is inside a function, where no other process finds it: move it out")
    module = sys.modules.get(layer.__module__)
    named: Any = module
    for name in layer.__qualname__.split("."):
        named = getattr(named, name, None)
    if module is None or named is not layer:
        raise UsageError(f"{layer.__module__}.{layer.__qualname__} is not that object: give one under its own name")
    return _name_in(module, layer.__qualname__)


def _name_of_partial(layer: object) -> str:
    """The name of a partial, which does not know its own."""
    for module in list(sys.modules.values()):
        for name, value in getattr(module, "__dict__", {}).items():
            if value is layer:
                return _name_in(module, name)
    raise UsageError(f"{_short(layer)} has no name by which another process finds it: name it at the top of a module")


def _name_in(module: ModuleType, name: str) -> str:
    """The name of what a module has as `name`, for another process. Raises UsageError if the module has no file."""
    if _can_be_imported(module):
        return f"{module.__name__}:{name}"
    if not getattr(module, "__file__", None):
        raise UsageError(f"{name} has no file, so no other process finds it: put it into a module")
    return f"{Path(str(module.__file__)).absolute().as_posix()}:{name}"


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}…"


def _can_be_imported(module: ModuleType) -> bool:
    """Whether a fresh interpreter with this one's `sys.path` finds the same file under the module's name."""
    if module.__name__ == "__main__":
        return False
    origin: str | None = None
    path: list[str] | None = None
    for name in accumulate(module.__name__.split("."), "{}.{}".format):
        spec = _found_by_name(name, path)
        if spec is None:
            return False
        origin, path = spec.origin, list(spec.submodule_search_locations or ())
    file = getattr(module, "__file__", None)
    imported = None if origin in (None, "built-in") else Path(str(origin)).resolve()
    return imported == (Path(file).resolve() if file else None)


def _found_by_name(name: str, path: list[str] | None) -> ModuleSpec | None:
    """The spec that an import would find, whether or not the module is already imported.

    pytest's own finders are skipped, because other processes do not have them.
    """
    finders = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest")]
    specs = (finder.find_spec(name, path) for finder in finders if hasattr(finder, "find_spec"))
    return next(filter(None, specs), None)


# The axes along which a cost model can be fitted, and their default sizes.
OVER = {
    "seq_len": (64, 128, 256, 512, 1024),
    "d_model": (32, 64, 128, 256),
    "num_heads": (1, 2, 4, 8),
    "batch_size": (1, 2, 4, 8),
}
# The default value of each axis. One thread: otherwise the memory that a fused kernel allocates may depend on the
# number of processors, and so may an exact assertion.
USUAL = {**DEFAULTS, "seq_len": 256, "d_model": 64, "num_heads": 4, "device": "cpu", "threads": 1}
_PRECISIONS = ("quick", "standard", "strict")


@dataclass(frozen=True)
class Request:
    """The cases that a test needs.

    All `cases` differ only in sizes. The cost model is fitted along `axis`, which may be one of the layer's `own_axes`.
    Messages name the layer `layer`.
    """

    layer: str
    axis: str
    cases: tuple[Case, ...]
    precision: Precision
    own_axes: str | None = None

    @property
    def letters(self) -> dict[str, str]:
        """The letter of each axis in formulas."""
        own_letters = {name: letter for name, (letter, _) in own_axes.axes_of_text(self.own_axes).items()}
        return {**{name: AXES[name].letter for name in OVER}, **own_letters}

    @property
    def letter(self) -> str:
        """The axis as a letter in formulas."""
        return self.letters[self.axis]

    def sizes_of(self, case: Case) -> dict[str, Any]:
        """The sizes of a case by the name of the axis."""
        of_all = {name: getattr(case, name) for name in OVER}
        return {**of_all, **own_axes.sizes_by_name(self.own_axes, case.options)}

    def with_size(self, case: Case, axis: str, size: Any) -> Case:
        """The case with another size along an axis."""
        if axis in OVER:
            return case.at(axis, size)
        return replace(case, options=own_axes.at_size(self.own_axes, case.options, axis, size))

    @property
    def sizes(self) -> list[int]:
        """The different sizes along the axis, in ascending order."""
        return sorted({self.sizes_of(case)[self.axis] for case in self.cases})

    @property
    def varied(self) -> tuple[str, ...]:
        """The axes along which sizes take several values."""
        every = [self.sizes_of(case) for case in self.cases]
        return tuple(name for name in self.letters if len({sizes[name] for sizes in every}) > 1)

    def between(self) -> list[Case]:
        """The cases halfway between neighbours along the axis."""
        middles = {low: (low + high) // 2 for low, high in pairwise(self.sizes)}
        lower = [case for case in self.cases if self.sizes_of(case)[self.axis] in middles]
        between = [self.with_size(case, self.axis, middles[self.sizes_of(case)[self.axis]]) for case in lower]
        return [case for case in dict.fromkeys(between) if case not in self.cases]

    def at(self, sizes: Mapping[str, Any]) -> Case:
        """The case at these sizes. Raises UsageError for an unknown or invalid size, or a missing one that varies."""
        unknown = sizes.keys() - self.letters.keys()
        if unknown:
            name = min(unknown)
            raise UsageError(f"at({name}=…): there is no such size{did_you_mean(name, self.letters)}")
        missing = [name for name in self.varied if name not in sizes]
        if missing:
            raise UsageError(f"at(…): say {' and '.join(f'{name}=…' for name in missing)}")
        case = self.cases[0]
        for name, size in sizes.items():
            case = self.with_size(case, name, size)
        checked = check_axes(case.as_dict())
        if any(len(checked[name]) != 1 for name in OVER):
            raise UsageError("at(…) takes one value of each size")
        return replace(case, **{name: checked[name][0] for name in OVER})


def read_request(
    layer: object,
    axis: str,
    over: Iterable[int] | None,
    precision: str,
    given: Mapping[str, Any],
    measuring: PytestSession,
) -> Request:
    """The cases that a test's `scaling(layer, axis, over, …)` means.

    `measuring` knows the layer's heads and own axes: the axis may be one of these. Raises UsageError if an argument is
    invalid.
    """
    text = measuring.axes_text(impl_name_of(layer))
    own = own_axes.axes_of_text(text)
    axes_of_laws = (*OVER, *own)
    if axis not in axes_of_laws:
        raise UsageError(f"unknown axis {axis!r}{did_you_mean(str(axis), axes_of_laws)}")
    if axis in given:
        raise UsageError(f"{axis} is the axis: its sizes are over=…")
    if over is None and axis in own:
        raise UsageError(f"{axis} has no usual sizes: give over=…")
    sizes = OVER[axis] if over is None else tuple(over)
    if axis in own:
        options = str(given.get("options", NO_OPTIONS))
        given = {**given, "options": [own_axes.at_size(text, options, axis, size) for size in sizes]}
        may_vary = {*OVER, "options"}
    else:
        given = {**given, axis: sizes}
        may_vary = {*OVER}
    return Request(
        getattr(layer, "__qualname__", impl_name_of(layer)),
        axis,
        tuple(sorted(grid(_axes(layer, given, may_vary), measuring.has_heads))),
        precision_named(precision),
        text,
    )


def one_case(layer: object, given: Mapping[str, Any], has_heads: Callable[[str], bool]) -> Case:
    """The single case that the arguments describe. Raises UsageError if they describe none or several."""
    return next(iter(grid(_axes(layer, given), has_heads)))


def precision_named(name: str) -> Precision:
    """The precision of that name in `conf/precision/`. Raises UsageError for an unknown name."""
    if name not in _PRECISIONS:
        raise UsageError(f"unknown precision {name!r}{did_you_mean(str(name), _PRECISIONS)}")
    file = conf_directory() / "precision" / f"{name}.yaml"
    return Precision(**yaml.safe_load(file.read_text(encoding="utf-8")))


def _axes(layer: object, given: Mapping[str, Any], may_vary: Collection[str] = ()) -> dict[str, tuple[Any, ...]]:
    """The values of every axis.

    Raises UsageError for an unknown axis, and for several values of an axis that is not in `may_vary`.
    """
    name = impl_name_of(layer)
    given = long_names(given)
    names = [axis for axis in AXES if axis != "impl"]
    unknown = [axis for axis in given if axis not in names]
    if unknown:
        option = f'(an option of the layer: options="{unknown[0]}={given[unknown[0]]}")'
        raise UsageError(f"there is no axis {unknown[0]!r}{did_you_mean(unknown[0], names)} {option}")
    values = {axis: list(value) if isinstance(value, range) else value for axis, value in given.items()}
    usual = {**USUAL, "padding_fraction": 0.25 if given.get("mask") == "padding" else 0.0}
    axes = check_axes({**usual, **values, "impl": [name]})
    several = [axis for axis in axes if len(axes[axis]) > 1 and axis not in may_vary]
    if several:
        raise UsageError(f"{several[0]} takes one value here: ask once for each")
    return axes
