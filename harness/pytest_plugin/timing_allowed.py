"""Whether this session may measure times. Facts are exact and may be taken in any session."""

import pytest


def why_not(config: pytest.Config) -> str | None:
    """Why no time may be measured, and what to do about it; None if it may."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        return (
            f"no time is taken beside other workers of pytest-xdist ({workers}), which it would measure too: "
            "run this test with -n 0"
        )
    only = config.getoption("benchmark_only", False)
    if config.getoption("benchmark_skip", False) and not only:
        return "no time is taken: --benchmark-skip was used"
    if config.getoption("benchmark_disable", False) and not config.getoption("benchmark_enable", False):
        return "no time is taken: --benchmark-disable was used"
    return None
