"""Stored runs whose costs are known formulas, for `predict` and `recommend`."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

from rows import attention_time, measured, rnn_time

from harness.core.model.sweep_axes import Case

SIZES = (64, 128, 256, 512, 1024, 2048)
CONFIG = """\
precision: {target: 0.05, min_rounds: 3, max_rounds: 3, trial_s: 0.1, timeout_s: 9, case_s: 100, patience_s: 1}
"""


def write(run: Path, cases: Iterable[Case], off: float = 0.0, **config: object) -> Path:
    """A run in which attention costs 8nd² + 4n²d at 10¹¹/s and an RNN 4nd² at 2·10¹⁰/s, each time off by that share.

    `config` is added to its configuration.
    """
    (run / "rows").mkdir(parents=True)
    (run / "config.yaml").write_text(
        CONFIG + "".join(f"{name}: {json.dumps(value)}\n" for name, value in config.items())
    )
    (run / "machine.json").write_text("{}")
    rows = []
    for case in cases:
        rnn = case.impl.startswith("rnn")
        bytes_ = 12 * case.seq_len * case.d_model if rnn else 8 * case.seq_len**2 + 16 * case.seq_len * case.d_model
        time_s = (rnn_time(case) if rnn else attention_time(case)) * (1 + off * math.sin(case.seq_len + case.d_model))
        rows += measured(case, time_s, bytes_)
    text = "".join(json.dumps({"schema": 2, **row}) + "\n" for row in rows)
    (run / "rows" / "host-1.jsonl").write_text(text)
    return run


def cases(**changed: object) -> list[Case]:
    attention = [Case("attention.fused", n, d, h, **changed) for n in SIZES for d in (64, 128, 256) for h in (2, 4, 8)]
    return attention + [Case("rnn.torch", n, d, 1, **changed) for n in SIZES for d in (64, 128, 256)]
