"""Rows of a layer that declares two own axes, which no package of the harness knows by name."""

import json
from typing import Any

from harness.core.model.own_axes import without_default_sizes
from harness.core.results.columns import CaseResult, lines_of_records

AXES = json.dumps({"page_size": ["p", 16], "window": ["w", 128]})
CLAIMS = json.dumps({"work": "4nwd", "memory": "nd + nw/p"})


def lines(pages: tuple[int, ...] = (8, 16, 32), windows: tuple[int, ...] = (64, 128, 256)) -> list[CaseResult]:
    """Of a layer in pages p with a window w, whose FLOPs are 4nwd, and whose time grows with them and with pages."""
    records: list[dict[str, Any]] = []
    for n, p, w in [(n, p, w) for n in (256, 512, 1024) for p in pages for w in windows]:
        given = without_default_sizes(AXES, f"page_size={p}+window={w}")
        time_s = 1e-6 + 1e-9 * n * w + 2e-8 * n / p
        known = {"impl": "./paged.py:paged", "seq_len": n, "d_model": 64, "num_heads": 1, "options": given}
        costs = {"time_s": time_s, "flops": 4 * n * w * 64, "flops_claimed": 4 * n * w * 64}
        records.append({**known, **costs, "own_axes": AXES, "claims": CLAIMS})
    return lines_of_records(records, bounded=False)
