"""Facts that other values of the input would change are unknown, against counts by hand. In bytes."""

import pytest
from core.trial.counts.by_values import EXPERTS

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

N, D = 16, 8
PRODUCT = 2 * N * D * D
X = 4 * N * D
UNKNOWN = dict.fromkeys(("flops", "flops_full", "min_bytes", "peak_bytes", "transient_bytes"))


@pytest.mark.parametrize(
    ("layer", "mode", "right"),
    [
        ("RoutesBySign", "forward", UNKNOWN),
        ("RoutesBySign", "train", UNKNOWN | {"saved_bytes": None}),
        ("RoutesBySign", "backward", UNKNOWN),
        ("RoutesByNonzero", "forward", UNKNOWN),
        ("SkipsBySum", "forward", {"flops": None, "ops": None, "min_bytes": None, "read_bytes": None}),
        ("SkipsBySum", "backward", {"flops": None, "ops": None, "min_bytes": None, "read_bytes": None}),
        ("SkipsByNumber", "forward", {"flops": None, "ops": None, "min_bytes": None, "read_bytes": None}),
        ("Converges", "forward", {"flops": None, "ops": None, "depth": None}),
        ("CountsEachSign", "forward", UNKNOWN),
        # Router, the largest, compare, the numbers, the tokens, the expert, its weight, and a sum for each expert.
        (
            "TopExperts",
            "forward",
            {"flops": 2 * PRODUCT + 2 * N * D * EXPERTS, "depth": 7 + EXPERTS, "peak_bytes": None},
        ),
        ("TopExperts", "train", {"flops": 3 * (2 * PRODUCT + 2 * N * D * EXPERTS), "peak_bytes": None}),
        # Twice the experts' outputs, since they are multiplied by the gates, and the gates.
        ("AllExperts", "forward", {"flops": EXPERTS * (PRODUCT + 2 * N * D), "depth": 5, "peak_bytes": 5248}),
        ("Codes", "forward", {"flops": PRODUCT, "peak_bytes": 2 * X, "min_bytes": None, "read_bytes": None}),
        ("FewTokens", "forward", {"flops": PRODUCT // 4, "depth": 5}),
    ],
)
def test_what_depends_on_values_is_unknown(
    runner: Executor, layer: str, mode: str, right: dict[str, int | None]
) -> None:
    facts = runner.run("facts", Case(f"core.trial.counts.by_values:{layer}", N, D, 1, mode=mode)).values
    assert {name: facts[name] for name in right} == right
    assert (None in right.values()) == any("values of the input" in why for why in facts["facts_unknown"])
