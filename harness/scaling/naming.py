"""The name of a law: the terms on which all plausible laws agree."""

from harness.scaling.law import Law
from harness.scaling.rivals import HIDDEN_PART

UNDETERMINED = "undetermined"


def name(law: Law) -> str:
    """Return `O(n + n²)` if all terms are known, `O(n² + …)` if only the leading one is, else `undetermined`."""
    if not law.determined:
        return UNDETERMINED
    if law.rivals or any(hidden.part > HIDDEN_PART for hidden in law.hidden):
        return f"O({law.leading} + …)"
    return f"O({' + '.join(str(term) for term in law.terms) or '0'})"
