"""Verdicts on the claims of FLOPs, sequential depth and path, from exact counts."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from harness.claims import Polynomial
from harness.findings.claimed import CONFIRMED, READ_TO, REFUTED, UNDETERMINED, Judgement, apart, degree, logs
from harness.scaling.law import Law
from harness.summary import Line

# A CUDA attention kernel pads head sizes to a multiple of this and computes on the padding, so FLOPs include it.
_PADDED_TO = 8


def judge_work(lines: Sequence[Line], claim: Polynomial | None, law: Law | None) -> Judgement:
    """Judge the claimed FLOPs: every count must equal the claim times the batch size, to the last digit.

    Without `claim`, the count must equal the line's `flops_claimed`. Lines without either claim are not judged. A
    kernel may skip what a causal mask hides. Its claim may include the skipped FLOPs or not.
    """
    counted = [line for line in lines if line.flops is not None]
    if not counted:
        why = next((line.facts_unknown for line in lines if line.facts_unknown), None) or _failed(lines)
        return Judgement("", UNDETERMINED, f"its work is not known: {why}")
    plain = [line for line in counted if not _padded(line)]
    if not plain:
        return Judgement("", UNDETERMINED, "on a GPU its head sizes are padded to a multiple of 8, and counted so")
    measured = str(law) if law is not None and law.exact and law.determined and not law.breaks else _count(plain[-1])
    claiming = [(line, claimed) for line in plain if (claimed := _claimed(line, claim)) is not None]
    if not claiming:
        return Judgement(measured, UNDETERMINED, "no case that was counted claims anything")
    for line, claimed in claiming:
        if not _bears_out(line, claimed):
            which = f"n = {line.seq_len}, d = {line.d_model}, h = {line.num_heads}"
            if is_masked(line):
                # Some layers compute a masked pass in another way, such as parallel linear attention.
                said = f"it claims {claimed:,} FLOPs without a mask, and does {line.flops:,} at {which}"
                return Judgement(measured, UNDETERMINED, said)
            return Judgement(measured, REFUTED, f"at {which} it claims {claimed:,} FLOPs and does {line.flops:,}")
    cases = f"{len(plain)} cases" if len(plain) > 1 else "the one case measured"
    if len(claiming) < len(plain):
        cases = f"{len(claiming)} of {cases}, the others claim nothing"
    if any(claimed not in (line.flops, line.flops_full) for line, claimed in claiming):
        said = f"between a half and all of what is claimed in {cases}: what the mask hides is left out"
        return Judgement(measured, CONFIRMED, said)
    return Judgement(measured, CONFIRMED, f"to the last digit in {cases}")


def is_masked(line: Line) -> bool:
    """Whether a mask changes the work, which claims do not cover. A decoded token has no later tokens to hide."""
    return line.mask != "none" and line.mode != "decode"


def _bears_out(line: Line, claimed: int) -> bool:
    """Whether the count is as claimed. A causal mask may leave out up to half of it: a triangle of a square."""
    if is_masked(line) and line.mask == "causal" and line.flops is not None and claimed <= 2 * line.flops:
        return line.flops <= claimed
    return claimed in (line.flops, line.flops_full)


def _claimed(line: Line, claim: Polynomial | None) -> int | None:
    if claim is None:
        return line.flops_claimed
    return line.batch_size * claim(line.seq_len, line.d_model, line.num_heads)


def _padded(line: Line) -> bool:
    return line.device == "cuda" and bool((line.d_model // line.num_heads) % _PADDED_TO)


def _count(line: Line) -> str:
    return f"{line.flops:,} at n = {line.seq_len}, d = {line.d_model}"


def _failed(lines: Sequence[Line]) -> str:
    return next((f"{line.status}: {line.reason}" for line in lines if line.status != "ok"), "it was not taken")


def judge_depth(lines: Sequence[Line], claim: Polynomial) -> Judgement:
    """Judge the claimed sequential depth by its order in n; constants are free.

    The depth must be the same at every n, or lie on a straight line over the claimed power of n. If log n is claimed,
    the straight line is over log₂ n rounded up.
    """
    series = _over_n(lines)
    if not series:
        return Judgement(_depths(lines), UNDETERMINED, "its depth is not known at two n or more")
    power, log, declared = degree(claim, "n"), logs(claim), _declared(lines)
    longest = max(series, key=len)
    others = [(depths, _doubt(depths, power, log)) for depths in series if not _follows(depths, power, log)]
    for depths, doubt in sorted(others, key=lambda other: bool(other[1])):
        if doubt:
            return Judgement(_written(depths), UNDETERMINED, f"{_ends(depths)}{doubt}{declared}")
        said = f"{_ends(depths)}: exponent {_order(depths):.2f} where the claim has {'log n' if log else power}"
        return Judgement(_written(depths), REFUTED, f"{said}{declared}")
    return Judgement(_written(longest), CONFIRMED, f"{_ends(longest)}{declared}")


def judge_path(lines: Sequence[Line], claim: Polynomial) -> Judgement:
    """Judge the claimed path length from the sequential depth, which is an upper bound.

    No path from one position to another is longer than the longest chain of operations. So the depth confirms a claim
    of its own order and refutes a claim of a higher order. It cannot tell whether a shorter path exists.
    """
    series = _over_n(lines)
    if not series:
        return Judgement("", UNDETERMINED, "its depth, which bounds the path, is not known at two n or more")
    power, log, longest = degree(claim, "n"), logs(claim), max(series, key=len)
    measured = f"at most {_written(longest)}"
    chain = f"no way is longer than the longest chain of operations, {_ends(longest)}{_declared(lines)}"
    if all(_follows(depths, power, log) for depths in series):
        return Judgement(measured, CONFIRMED, f"{chain}; a bound from above" if power or log else chain)
    if all(_order(depths) < power - READ_TO for depths in series):
        # One series that leaves no doubt is enough.
        doubt = min(_doubt(depths, power, log) for depths in series)
        return Judgement(measured, UNDETERMINED if doubt else REFUTED, f"{chain}{doubt}")
    return Judgement(measured, UNDETERMINED, f"{chain}; that it is shorter cannot be seen from outside")


def _follows(depths: Mapping[int, int], power: int, log: int = 0) -> bool:
    """Whether the depth is of the order of n to `power`, or of log n if `log` is not 0."""
    if log:
        return power == 0 and len(depths) > 2 and _straight({(n - 1).bit_length(): d for n, d in depths.items()})
    if power == 0:
        return len(set(depths.values())) == 1
    on_powers = {n**power: depth for n, depth in depths.items()}
    if len(depths) > 2 and _straight(on_powers):
        return True
    return len(apart(depths)) > 1 and abs(_order(depths) - power) <= READ_TO


def _doubt(depths: Mapping[int, int], power: int, log: int = 0) -> str:
    """Why a depth that does not follow its claimed order may still do so at larger n; empty if it cannot.

    The constants are free, however large.
    """
    if log and len(depths) < 3:
        return ": two n cannot tell its order"
    if power == 0:
        return ""
    ends = apart(depths)[-3:]
    if len(ends) < 2:
        return ": no n is twice another, which cannot tell its order"
    if len(ends) == 2:
        return ": two n cannot tell its order" if depths[ends[1]] > depths[ends[0]] else ""
    # A constant cancels out of these differences. The tolerance ignores a step more or less.
    early, late = ((depths[n2] - depths[n1]) / (n2**power - n1**power) for n1, n2 in pairwise(ends))
    rising = late > 0 and late >= early * (ends[1] / ends[2]) ** READ_TO
    return ", and still rising: larger n would tell" if rising and _order(depths) < power else ""


def _over_n(lines: Sequence[Line]) -> list[Mapping[int, int]]:
    """The depth by n, for each (d, h, b) where it is known at two or more n."""
    groups: dict[tuple[int, int, int], dict[int, int]] = {}
    for line in lines:
        if line.depth is not None:
            at = (line.d_model, line.num_heads, line.batch_size)
            groups.setdefault(at, {})[line.seq_len] = line.depth
    return [dict(sorted(depths.items())) for depths in groups.values() if len(depths) > 1]


def _order(depths: Mapping[int, int]) -> float:
    """The scaling exponent up to the largest n, from the largest n of at most half of it.

    If no n is that small, the exponent starts at the smallest n.
    """
    ends = apart(depths)
    small, large = ends[-2:] if len(ends) > 1 else (min(depths), max(depths))
    return math.log(max(depths[large], 1) / max(depths[small], 1)) / math.log(large / small)


def _straight(depths: Mapping[int, int]) -> bool:
    """Whether all points lie exactly on one rising line."""
    steps = [(x2 - x1, y2 - y1) for (x1, y1), (x2, y2) in pairwise(depths.items())]
    return steps[0][1] > 0 and all(x * steps[0][1] == y * steps[0][0] for x, y in steps)


def _written(depths: Mapping[int, int]) -> str:
    """The depth as text: `5`, `3n + 2`, or the depth at the largest n."""
    if len(set(depths.values())) == 1:
        return str(next(iter(depths.values())))
    (n1, y1), (n2, y2) = list(depths.items())[:2]
    step, rest = divmod(y2 - y1, n2 - n1)
    if len(depths) > 2 and not rest and _straight(depths):
        start = y1 - step * n1
        return f"{step if step > 1 else ''}n" + (f" {'+' if start > 0 else '−'} {abs(start)}" if start else "")
    return f"{depths[max(depths)]} at n = {max(depths)}"


def _ends(depths: Mapping[int, int]) -> str:
    small, large = min(depths), max(depths)
    if len(set(depths.values())) == 1:
        return f"{depths[small]} at every n from {small} to {large}"
    return f"{depths[small]} at n = {small} and {depths[large]} at n = {large}"


def _depths(lines: Sequence[Line]) -> str:
    known = [line for line in lines if line.depth is not None]
    return f"{known[-1].depth} at n = {known[-1].seq_len}" if known else ""


def _declared(lines: Sequence[Line]) -> str:
    """A note on the part of the depth that kernels declare and that cannot be observed; empty if none."""
    most = max((line.depth_declared or 0 for line in lines), default=0)
    return f" (up to {most} of it declared by kernels that hide their inside)" if most else ""
