"""What `predict` and `recommend` are asked: a size, and which of a run's settings is meant."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields

from harness.errors import UsageError, did_you_mean
from harness.findings.laws import FittedLaw
from harness.findings.series import Setting

SIZES = ("seq_len", "d_model", "num_heads")
SETTING = tuple(field.name for field in fields(Setting))


@dataclass(frozen=True)
class Asked:
    """A size and the setting that it is asked of."""

    n: int
    d: int
    h: int
    b: int
    setting: Setting

    @property
    def size(self) -> tuple[int, int, int, int]:
        """(n, d, h, b)."""
        return self.n, self.d, self.h, self.b

    def __str__(self) -> str:
        one = self.setting
        threads = f", {one.threads} thread{'s' if one.threads > 1 else ''}" if one.device == "cpu" else ""
        mask = f", mask {one.mask}" if one.mask != "none" else ""
        real = f", {100 * one.real_share:.0f} % real" if one.real_share < 1 else ""
        source = f", source of {one.source_len}" if one.source_len else ""
        where = f"{one.mode}{mask}{real}{source}, {one.dtype}, {one.device}{threads}"
        return f"n = {self.n}, d = {self.d}, h = {self.h}, batch {self.b} ({where})"


def keys(texts: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """`key=value` texts by key. Raises UsageError for what is none, unknown or given twice."""
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"'{text}' is not of the form key=value")
        if name not in known:
            raise UsageError(f"unknown key '{name}'{did_you_mean(name, known)}")
        if name in given:
            raise UsageError(f"{name} is given twice")
        given[name] = value
    return given


def whole(name: str, text: str | None) -> int:
    """A size. Raises UsageError where it is missing or none."""
    if text is None:
        raise UsageError(f"{name} is missing: give {', '.join(f'{size}=…' for size in SIZES)}")
    # Beyond 10⁹ no size is meant, and its powers are no numbers that a law could be evaluated at.
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:11]) <= 10**9):
        raise UsageError(f"{name}={text}: it takes a whole number from 1 to 10⁹")
    return int(text)


def asked(given: dict[str, str], laws: Iterable[FittedLaw], run: object) -> Asked:
    """The size and the one setting of the run that are meant. Raises UsageError where they are not clear."""
    n, d, h = (whole(name, given.get(name)) for name in SIZES)
    if d % h:
        raise UsageError(f"d_model={d} is not divisible by num_heads={h}")
    timed = [law for law in laws if law.series.metric == "time"]
    if not timed:
        raise UsageError(f"{run} has no times to go by")
    setting = _setting(run, [law.series.setting for law in timed], given)
    b = whole("batch_size", given["batch_size"]) if "batch_size" in given else _batch(timed, setting)
    return Asked(n, d, h, b, setting)


def _setting(run: object, known: Iterable[Setting], given: dict[str, str]) -> Setting:
    """The one setting that was asked for. Raises UsageError where the run has none such, or several."""
    left = list(dict.fromkeys(known))
    wanted = {name: value for name, value in given.items() if name in SETTING}
    if any(setting.mode == "forward" for setting in left):
        wanted.setdefault("mode", "forward")
    if wanted.get("mode") == "decode" and wanted.get("mask") == "none":
        del wanted["mask"]  # as in a sweep: a token that is decoded comes after all others
    for name in SETTING:
        values = sorted({str(getattr(setting, name)) for setting in left})
        if name in wanted:
            left = [setting for setting in left if str(getattr(setting, name)) == wanted[name]]
            if not left:
                raise UsageError(f"{run} has no times for {name}={wanted[name]}; it has {_listed(name, values)}")
        elif len(values) > 1:
            raise UsageError(f"{run} has {_listed(name, values)}: say which")
    return left[0]


def _batch(timed: Iterable[FittedLaw], setting: Setting) -> int:
    batches = sorted({point.b for law in timed if law.series.setting == setting for point in law.series.points})
    if len(batches) > 1:
        raise UsageError(f"the run has {_listed('batch_size', [str(b) for b in batches])}: say which")
    return batches[0]


def _listed(name: str, values: Collection[str]) -> str:
    return f"{name}={','.join(values)}"
