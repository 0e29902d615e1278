"""What a law may be called: by the terms that all laws which explain the points agree on."""

from harness.scaling.law import Law
from harness.scaling.rivals import HIDDEN_PART

UNDETERMINED = "undetermined"


def name(law: Law) -> str:
    """`O(n + n²)` where the terms are known, `O(n² + …)` where only the leading one is, else `undetermined`."""
    if not law.determined:
        return UNDETERMINED
    if law.rivals or any(hidden.part > HIDDEN_PART for hidden in law.hidden):
        return f"O({law.leading} + …)"
    return f"O({' + '.join(str(term) for term in law.terms) or '0'})"
