"""Which of torch's operators do no product, so that they count as 0 FLOPs and as one operation of a chain.

The tables are in `operators.txt`. An operator that neither has a formula nor is known to do no product is unknown: it
may be a product, a solver, or a loop of many steps.
"""

from functools import cache
from pathlib import Path

NO_PRODUCT, UNKNOWN = "no product", "unknown"
_FILE = Path(__file__).with_name("operators.txt")


@cache
def operator_table(name: str) -> frozenset[str]:
    """The operators in one of the two tables, such as `aten::add`."""
    operators: set[str] = set()
    table = namespace = ""
    for line in _FILE.read_text().splitlines():
        if line.startswith("["):
            table = line.partition("]")[0].removeprefix("[")
        elif line.endswith("::"):
            namespace = line
        elif table == name and line.startswith("  "):
            operators.update(namespace + operator for operator in line.split())
    return frozenset(operators)


def does_no_product(operator: str) -> bool:
    """Whether an operator such as `aten::add` is known to do no product and no loop of its own."""
    return operator in operator_table(NO_PRODUCT)
