"""*Attention Is All You Need*, table 1 (Vaswani et al. 2017, section 4), and what was measured of each cell.

The table counts what a layer does between positions and leaves its projections out: O(n²·d) of attention, whose work
with projections is 4n²d + 8nd². A cell of complexity is therefore confirmed where its term is there and is the only
one of its power of n; what comes on top is said in the reason. Sequential operations and path are those of the claims.

`beyond_table1` is the same of what the table leaves out: training a layer, and inference a token at a time, for which
attention keeps the keys and values of all n tokens before, and a recurrent layer one state.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.claims import parse
from harness.findings.claimed import CONFIRMED, REFUTED, UNDETERMINED
from harness.findings.laws import FittedLaw
from harness.findings.verdicts import Verdict
from harness.summary import Line
from impls.registry import IMPLS


@dataclass(frozen=True)
class Cell:
    """One cell: what the paper has, what was measured, one of `verdicts.VERDICTS`, and why."""

    claimed: str
    measured: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Table1Row:
    """One layer beside the row of its kind; `impl` is None where no layer of this kind was measured."""

    kind: str
    impl: str | None
    complexity: Cell
    sequential: Cell
    path: Cell


@dataclass(frozen=True)
class BeyondRow:
    """Complexity of a layer in training, and of one token at inference with n tokens before it."""

    kind: str
    impl: str | None
    training: Cell
    per_token: Cell


class _Order(NamedTuple):
    """O(…) as it is written, and its powers of n and d."""

    text: str
    n: int
    d: int


class _Kind(NamedTuple):
    """A row of the table. `family`: that of our impls of the kind; empty where there is none."""

    name: str
    family: str
    complexity: _Order
    sequential: str
    path: str


_N2D, _ND2 = _Order("O(n²·d)", 2, 1), _Order("O(n·d²)", 1, 2)
_KINDS = (
    _Kind("Self-Attention", "attention", _N2D, "O(1)", "O(1)"),
    _Kind("Recurrent", "rnn", _ND2, "O(n)", "O(n)"),
    _Kind("Convolutional", "", _Order("O(k·n·d²)", 1, 2), "O(1)", "O(log_k n)"),
    _Kind("Self-Attention (restricted)", "", _Order("O(r·n·d)", 1, 1), "O(1)", "O(n/r)"),
)
# Of one token at inference: attention meets n keys and values, a recurrent layer its state.
_PER_TOKEN = {"attention": _Order("O(n·d)", 1, 1), "rnn": _Order("O(d²)", 0, 2)}
_NONE = "no layer of this kind measured"


def table1(lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> list[Table1Row]:
    """The rows of the table, each as often as layers of its kind were measured in `forward`, once where none was."""
    seen = _Seen(lines, laws, found)
    rows = []
    for kind in _KINDS:
        impls: Sequence[str | None] = seen.impls(kind.family, "forward") or [None]
        for impl in impls:
            rows.append(
                Table1Row(
                    kind.name,
                    impl,
                    seen.complexity(impl, "forward", kind.complexity),
                    seen.order(impl, "depth", kind.sequential),
                    seen.order(impl, "path", kind.path),
                )
            )
    return rows


def beyond_table1(lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> list[BeyondRow]:
    """Training and inference of every layer measured of the two kinds, once where none was."""
    seen = _Seen(lines, laws, found)
    rows = []
    for kind in _KINDS:
        if not kind.family:
            continue
        impls: Sequence[str | None] = seen.impls(kind.family, "forward", "train", "decode") or [None]
        for impl in impls:
            training = seen.complexity(impl, "train", kind.complexity)
            rows.append(BeyondRow(kind.name, impl, training, seen.complexity(impl, "decode", _PER_TOKEN[kind.family])))
    return rows


class _Seen:
    """What was measured and found, by impl and mode: a cell is of all settings of a mode together."""

    def __init__(self, lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> None:
        self._sizes: dict[tuple[str, str], set[int]] = {}
        for line in lines:
            self._sizes.setdefault((line.impl, line.mode), set()).add(line.seq_len)
        self._work = {(law.series.impl, law.series.setting.mode): law for law in laws if law.series.metric == "flops"}
        self._verdicts: dict[tuple[str, str, str], list[Verdict]] = {}
        for one in found:
            self._verdicts.setdefault((one.impl, one.setting.mode, one.quantity), []).append(one)

    def impls(self, family: str, *modes: str) -> list[str]:
        """Ours of a family that were measured in one of the modes, in the registry's order."""
        return [
            name
            for name, impl in IMPLS.items()
            if impl.family == family and any((name, mode) in self._sizes for mode in modes)
        ]

    def order(self, impl: str | None, quantity: str, claimed: str) -> Cell:
        """The cell of a claim by order: the impl's own claim, if it is the table's too."""
        if impl is None:
            return Cell(claimed, "", UNDETERMINED, _NONE)
        one = self._verdict(impl, "forward", quantity)
        if one is None:
            return Cell(claimed, "", UNDETERMINED, "not measured")
        if one.claimed != claimed:
            return Cell(
                claimed, one.measured, REFUTED, f"the layer itself claims {one.claimed}, which is {one.verdict}"
            )
        return Cell(claimed, one.measured, one.verdict, one.reason)

    def complexity(self, impl: str | None, mode: str, order: _Order) -> Cell:
        """The cell of complexity, from the polynomial that the counted work is."""
        if impl is None:
            return Cell(order.text, "", UNDETERMINED, _NONE)
        sizes = self._sizes.get((impl, mode), set())
        if not sizes:
            return Cell(order.text, "", UNDETERMINED, f"not measured (mode={mode})")
        if len(sizes) < 2:
            return Cell(order.text, "", UNDETERMINED, f"n was not varied (mode={mode})")
        terms = self._work_terms(impl, mode)
        if not terms:
            return Cell(order.text, "", UNDETERMINED, f"its work is not known as a formula (mode={mode})")
        return _held_against(order, terms)

    def _verdict(self, impl: str, mode: str, quantity: str) -> Verdict | None:
        """Of several settings the one that says most against the claim: a claim must hold in all of them."""
        weight = {REFUTED: 0, CONFIRMED: 1, UNDETERMINED: 2}
        ranked = sorted(self._verdicts.get((impl, mode, quantity), []), key=lambda one: weight[one.verdict])
        return ranked[0] if ranked else None

    def _work_terms(self, impl: str, mode: str) -> list["_Term"]:
        """What the work is made of: the claim that every count bears out, else the exact law of the counts."""
        one = self._verdict(impl, mode, "work_train" if mode == "train" else "work")
        if one is not None and one.verdict == CONFIRMED and impl in IMPLS:
            return [_Term(term.coefficient, term.n, term.d + term.h) for term in parse(one.claimed).terms]
        fitted = self._work.get((impl, mode))
        if fitted is None or fitted.law.breaks or "d" not in fitted.law.varied:
            return []
        if not (fitted.law.exact and fitted.law.determined):
            return []
        return [
            _Term(part.value, part.term.n, part.term.d + part.term.h, part.term.log) for part in fitted.law.coefficients
        ]


class _Term(NamedTuple):
    """A coefficient, powers of n and d, and of log n; h counts as d, which it divides."""

    coefficient: float
    n: int
    d: int
    log: int = 0

    def __str__(self) -> str:
        logs = "·log n" if self.log else ""
        return f"{abs(self.coefficient):g}{_power('n', self.n)}{_power('d', self.d)}{logs}"


def _power(name: str, power: int) -> str:
    return "" if power == 0 else name + {1: "", 2: "²", 3: "³", 4: "⁴"}[power]


def _held_against(order: _Order, terms: Sequence[_Term]) -> Cell:
    measured = "".join(
        (" − " if term.coefficient < 0 else " + " if i else "") + str(term)
        for i, term in enumerate(sorted(terms, key=lambda term: (-term.n, -term.d)))
    )
    faster = [term for term in terms if (term.n, term.log, term.d) > (order.n, 0, order.d)]
    if faster:
        return Cell(order.text, measured, REFUTED, f"{faster[0]} grows faster")
    of_order = next((term for term in terms if (term.n, term.d, term.log) == (order.n, order.d, 0)), None)
    if of_order is None or of_order.coefficient <= 0:
        return Cell(order.text, measured, REFUTED, f"there is no term of {order.text}")
    # Fewer factors of n but more of d: not of lower order where d is large.
    on_top = [term for term in terms if term.n < order.n and term.d > order.d]
    if not on_top:
        return Cell(order.text, measured, CONFIRMED, f"{of_order} is its leading term, to the last digit")
    said = " and ".join(_on_top(term, of_order) for term in on_top)
    return Cell(order.text, measured, CONFIRMED, f"{of_order} is the only term of its power of n; {said}")


def _on_top(term: _Term, leading: _Term) -> str:
    """`8nd² of the projections comes on top, and is more up to n = 2d`."""
    of_what = " of the projections" if (term.n, term.d, term.log) == (1, 2, 0) else ""
    said = f"{term}{of_what} comes on top"
    if (leading.n - term.n, term.d - leading.d, term.log) == (1, 1, 0):
        return f"{said}, and is more up to n = {term.coefficient / leading.coefficient:.3g}d"
    return said
