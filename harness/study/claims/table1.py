"""*Attention Is All You Need*, table 1 (Vaswani et al. 2017, section 4), with a measured verdict on each cell.

The table counts the work between positions and leaves out the projections. Attention is O(n²·d) there, while its FLOPs
with projections are 4n²d + 8nd². A complexity cell is therefore confirmed if its term is present and no term grows
faster.

A second table covers what table 1 leaves out: training, and inference one token at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from harness.core.model import own_axes
from harness.core.model.polynomial import Polynomial, Term, constant, parse
from harness.core.model.sweep_axes import Setting
from harness.core.results.columns import CaseResult
from harness.study.laws.fitted_laws import FittedLaw
from harness.study.laws.series import series_groups
from impls.registry import IMPLS

from .claim_rules import CONFIRMED, NOT_MEASURED, REFUTED, UNDETERMINED, judge_depth, judge_path
from .claims_table import OWN_FORMULA, ClaimVerdict


@dataclass(frozen=True)
class Cell:
    """One cell: the paper's claim, the measured value, a verdict, and the reason.

    The verdict is one of `claims_table.VERDICTS` or `NOT_MEASURED`. The reason then says what to run.
    """

    claimed: str
    measured: str
    verdict: str
    reason: str


# Makes a cell from an order, the FLOPs, and whether the order is only an upper bound.
_JudgeWork = Callable[[str, Polynomial, bool], Cell]


def _compared(order: str, work: Polynomial, at_most: bool) -> Cell:
    """Return the cell for these FLOPs. The reason names the terms that come on top.

    `at_most`: the kind was inferred from the family alone. The order is then only an upper bound, and doing less does
    not refute it.
    """
    cell, top = partial(Cell, order, str(work.by_growth())), _polynomial(order).terms[0]
    # If each position meets r tokens, the order is lower than that of the projections, which the table leaves out.
    aside = [term for term in work.terms if "r" in order and term == Term(n=top.n, d=top.d + 1)]
    terms = [term for term in work.terms if term not in aside]
    faster = [term for term in terms if (term.n, term.log, _most_d(term)) > (top.n, 0, top.d)]
    if faster:
        return cell(REFUTED, f"{work.part(faster[0])} grows faster")
    leading = max((term for term in terms if (term.n, term.d, term.log) == (top.n, top.d, 0)), default=None)
    if not leading and at_most:
        why = f"does less than {order}, which as a bound from above is not broken: it may be of another kind"
        return cell(UNDETERMINED, why)
    if not leading or work.coefficients[leading] <= 0:
        return cell(REFUTED, f"there is no term of {order}")
    # Terms with fewer factors of n but more of d are not of lower order if d is large.
    on_top = [*aside, *(term for term in work.terms if term.n < top.n and _most_d(term) > top.d)]
    if not on_top:
        return cell(CONFIRMED, f"{work.part(leading)} is its leading term, to the last digit")
    text = " and ".join(_extra_terms(work, term, leading) for term in on_top)
    alone = sum(term.n == top.n for term in terms) == 1
    leads = "is the leading term" if alone else "leads the terms of its power of n"
    return cell(CONFIRMED, f"{work.part(leading)} {leads}; {text}")


def _polynomial(order: str) -> Polynomial:
    """The polynomial in O(…), with the letters k and r of the table as constants."""
    return parse(order.removeprefix("O(").removesuffix(")"), {"k": constant(1), "r": constant(1)})


def _most_d(term: Term) -> int:
    """The highest power of d that the term can reach, since 1 ≤ h ≤ d. The table has no h and no b."""
    return term.d + max(term.h, 0)


def _cost_of_next_token(order: str, work: Polynomial, at_most: bool) -> Cell:
    """Return the cell of W(n) − W(n − 1), with W the FLOPs of a forward pass.

    If all earlier results are kept, the nth token adds at most this many FLOPs.
    """
    more = work.difference()
    if more is None or not more.terms:
        return Cell(order, "", UNDETERMINED, "its FLOPs have no difference that is a formula")
    cell = _compared(order, more, at_most)
    text = f"{cell.reason}; decoding itself was not timed"
    if work.growth("n")[0] > 1:
        text += ", and does less: in it no earlier token meets the new one"
    return replace(cell, measured=f"{cell.measured}, by difference of the FLOPs", reason=text)


def _extra_terms(work: Polynomial, term: Term, leading: Term) -> str:
    """Describe a term beside the leading one: `the projections add 8nd², which dominates while n < 2d`."""
    is_projection = term.along("ndh") in [Term(n=n, d=leading.d + 1) for n in (leading.n - 1, leading.n)]
    text = f"{'the projections add ' if is_projection else 'beside it there is '}{work.part(term)}"
    same = (term.h, term.b, term.log) == (leading.h, leading.b, leading.log)
    if same and (leading.n - term.n, term.d - leading.d) == (1, 1):
        ratio = work.coefficients[term] / work.coefficients[leading]
        return f"{text}, which dominates while n < {f'{float(ratio):.3g}' if ratio != 1 else ''}d"
    return text


@dataclass(frozen=True)
class Table1Row:
    """One layer beside the table's row of its kind; `impl` is None if no layer of this kind was measured.

    The cells `sequential` and `path` hold the verdicts on the claims of depth and path.
    """

    kind: str
    impl: str | None
    complexity: Cell
    sequential: Cell
    path: Cell


@dataclass(frozen=True)
class BeyondRow:
    """The complexity of training a layer, and of inference for one token after n others.

    At inference, attention keeps the keys and values of all n tokens before. A recurrent layer keeps one state.
    """

    kind: str
    impl: str | None
    training: Cell
    per_token: Cell


class _Kind(NamedTuple):
    """A row of the table, and the order of inference for one token.

    The registry calls the kind of the row's layers `kind`. If the path is that of a stack of layers, `of_stack`
    describes the stack. For a single layer it is empty.
    """

    name: str
    kind: str
    complexity: str
    sequential: str
    path: str
    per_token: str
    of_stack: str = ""


# At inference, one token meets n keys and values in attention, or r if restricted. It meets the state in a recurrent
# layer and k inputs in a convolution.
_KINDS = (
    _Kind("Self-Attention", "self-attention", "O(n²·d)", "O(1)", "O(1)", "O(n·d)"),
    _Kind("Recurrent", "recurrent", "O(n·d²)", "O(n)", "O(n)", "O(d²)"),
    _Kind("Convolutional", "convolutional", "O(k·n·d²)", "O(1)", "O(log_k n)", "O(k·d²)", "log_k n dilated layers"),
    _Kind("Self-Attention (restricted)", "restricted", "O(r·n·d)", "O(1)", "O(n/r)", "O(r·d)", "n/r layers"),
)
# A user's layer is of the kind of most layers of its family.
_OF_FAMILY = {"attention": "self-attention", "sdpa": "self-attention", "rnn": "recurrent", "conv": "convolutional"}
# Terms of a claim: those of the projections, and of r tokens met by each position.
_PROJECTIONS, _MEETS_R = parse("nd² + nd").terms
# The verdict that decides over several settings. One refuted setting refutes a claim, which must hold in all of them.
_WORST_FIRST = (REFUTED, CONFIRMED, UNDETERMINED)


def table1(
    lines: Iterable[CaseResult], laws: Iterable[FittedLaw], found: Iterable[ClaimVerdict]
) -> tuple[list[Table1Row], list[BeyondRow]]:
    """Return the rows of the table, and those beyond it.

    The table has a row for each layer measured in `forward`. Beyond it, layers of other modes have rows too. A kind
    without such a layer has one row.
    """
    seen = _Seen(lines, laws, found)
    rows = [
        Table1Row(
            kind.name,
            impl,
            seen.complexity(impl, "forward", kind.complexity),
            seen.order(impl, "depth", kind.sequential),
            seen.path(impl, kind),
        )
        for kind, impl in seen.rows("forward")
    ]
    beyond = [
        BeyondRow(
            kind.name, impl, seen.complexity(impl, "train", kind.complexity), seen.per_token(impl, kind.per_token)
        )
        for kind, impl in seen.rows("forward", "train", "decode")
    ]
    return rows, beyond


class _Seen:
    """The measurements and verdicts by layer and setting. A cell is that of the worst setting with its mode."""

    def __init__(self, lines: Iterable[CaseResult], laws: Iterable[FittedLaw], found: Iterable[ClaimVerdict]) -> None:
        # The paper's layers attend to their own input.
        self._lines = series_groups(line for line in lines if not line.kv_len)
        self._laws = {(law.series.impl, law.series.setting): law for law in laws if law.series.metric == "flops"}
        self._verdicts = {(one.impl, one.setting, one.quantity): one for one in found if not one.setting.kv_len}

    def rows(self, *modes: str) -> Iterator[tuple[_Kind, str | None]]:
        """Yield each kind with every layer of it that was measured in one of the modes, or with None without any."""
        for kind in _KINDS:
            for impl in self._impls(kind.kind, modes) or [None]:
                yield kind, impl

    def _impls(self, kind: str, modes: Sequence[str]) -> Sequence[str | None]:
        """Return the layers of a kind that were measured in one of the modes.

        Built-in layers come first, in the registry's order; the registry gives their kind. Other layers are included
        only if their FLOPs were counted.
        """
        measured = [(name, lines) for (name, setting), lines in self._lines.items() if setting.mode in modes]
        ours = [name for name, impl in IMPLS.items() if impl.kind == kind and name in dict(measured)]
        others = [
            name
            for name, lines in measured
            if name not in IMPLS
            and any(self._kind(name, line.family) == kind and line.flops is not None for line in lines)
        ]
        return [*ours, *dict.fromkeys(others)]

    def _kind(self, impl: str, family: str) -> str | None:
        """The kind of a user's layer: that of its family, with one exception.

        The exception is attention whose confirmed claim of FLOPs has no n². It is restricted if each position meets r
        tokens. Otherwise it has no kind, like the built-in linear attention.
        """
        of_family = _OF_FAMILY.get(family)
        claimed = [
            self._claimed(impl, one)
            for (name, _, quantity), one in self._verdicts.items()
            if name == impl and quantity in ("work", "work_train") and one.verdict == CONFIRMED
            if one.claimed != OWN_FORMULA
        ]
        if of_family != "self-attention" or not claimed or claimed[0].growth("n")[0] > 1:
            return of_family
        between = {term for term in claimed[0].terms if term.n} - {_PROJECTIONS}
        return "restricted" if between == {_MEETS_R} else None

    def _settings(self, impl: str, mode: str) -> list[Setting]:
        return [setting for name, setting in self._lines if (name, setting.mode) == (impl, mode)]

    def path(self, impl: str | None, kind: _Kind) -> Cell:
        """Return the cell of the path, which may be that of a stack of layers."""
        if impl is None or not kind.of_stack:
            return self.order(impl, "path", kind.path)
        return Cell(kind.path, "", NOT_MEASURED, f"the path of a stack of {kind.of_stack}")

    def order(self, impl: str | None, quantity: str, claimed: str) -> Cell:
        """Return the cell of a claim by order.

        This is the verdict on the layer's own claim if it equals the table's. Otherwise the table's claim is judged.
        """
        return self._worst(impl, "forward", claimed, partial(self._order_in, quantity=quantity, claimed=claimed))

    def _worst(self, impl: str | None, mode: str, claimed: str, judge: Callable[[str, Setting], Cell]) -> Cell:
        if impl is None:
            return Cell(claimed, "", NOT_MEASURED, "no layer of this kind measured")
        found = [judge(impl, setting) for setting in self._settings(impl, mode)]
        unmeasured = Cell(claimed, "", NOT_MEASURED, f"run mode={mode}")
        return min(found, key=lambda one: _WORST_FIRST.index(one.verdict), default=unmeasured)

    def _order_in(self, impl: str, setting: Setting, quantity: str, claimed: str) -> Cell:
        own = self._verdicts.get((impl, setting, quantity))
        if own is not None and own.claimed == claimed:
            return Cell(claimed, own.measured, own.verdict, own.reason)
        judge = {"depth": judge_depth, "path": judge_path}[quantity]
        one = judge(self._lines[impl, setting], _polynomial(claimed))
        if (quantity, own, one.verdict) == ("path", None, CONFIRMED) and impl not in IMPLS:
            return Cell(claimed, one.measured, UNDETERMINED, "claim `path`: a sweep then looks for one from end to end")
        text = f"; the layer itself claims {own.claimed}" if own is not None else ""
        return Cell(claimed, one.measured, one.verdict, one.reason + text)

    def complexity(self, impl: str | None, mode: str, order: str, judge: _JudgeWork = _compared) -> Cell:
        """Return the complexity cell, as `judge` makes it from the counted FLOPs as a polynomial."""
        return self._worst(impl, mode, order, partial(self._complexity_in, order=order, judge=judge))

    def per_token(self, impl: str | None, order: str) -> Cell:
        """Return the cell of inference for one token: from decoding if measured, else from forward passes.

        The latter is W(n) − W(n − 1), the difference between the FLOPs of forward passes over n and n − 1 tokens.
        """
        if impl is None or self._settings(impl, "decode") or not self._settings(impl, "forward"):
            return self.complexity(impl, "decode", order)
        return self.complexity(impl, "forward", order, _cost_of_next_token)

    def _complexity_in(self, impl: str, setting: Setting, order: str, judge: _JudgeWork) -> Cell:
        if len({line.seq_len for line in self._lines[impl, setting]}) < 2:
            return Cell(order, "", UNDETERMINED, f"n was not varied (mode={setting.mode})")
        work = self._work_of(impl, setting)
        if work is None or not work.terms:
            return Cell(order, "", UNDETERMINED, f"its FLOPs are not known as a formula (mode={setting.mode})")
        return judge(order, work, impl not in IMPLS)

    def _work_of(self, impl: str, setting: Setting) -> Polynomial | None:
        """The FLOPs: those of a confirmed claim, else of the exact law of the counts; None if neither is known."""
        quantity = "work" if setting.mode == "forward" else f"work_{setting.mode}"
        one = self._verdicts.get((impl, setting, quantity))
        exact = setting.mask == "none" or setting.mode == "decode"  # a confirmed claim may exceed the count if masked
        if one is not None and one.verdict == CONFIRMED and one.claimed != OWN_FORMULA and exact:
            return self._claimed(impl, one)
        law = self._laws[impl, setting].law if (impl, setting) in self._laws else None
        if law is None or law.breaks or "d" not in law.varied or not (law.exact and law.determined):
            return None
        return law.polynomial.at(self._lines[impl, setting][0].own_size)

    def _claimed(self, impl: str, one: ClaimVerdict) -> Polynomial:
        """The claim as a polynomial, at the first measured size along the layer's own axes."""
        line = self._lines[impl, one.setting][0]
        return parse(one.claimed, own_axes.letters_of_texts([line.own_axes])).at(line.own_size)
