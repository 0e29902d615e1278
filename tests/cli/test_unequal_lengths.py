"""Sweeps of batches with unequal lengths, as commands."""

from pathlib import Path

import pandas as pd
import pytest

from harness.cli.commands import main

pytestmark = pytest.mark.slow

TINY = ["d_model=16", "num_heads=2", "batch_size=3", "threads=1", "precision.trial_s=0.01", "precision.patience_s=0"]
ROUNDS = ["precision.min_rounds=2", "precision.max_rounds=2", "--no-plots"]
KERNEL = """\
from itertools import pairwise

import torch
from torch.nn.functional import scaled_dot_product_attention


def my_kernel(q, k, v, cu_seqlens, max_seqlen):
    found = []
    for first, end in pairwise(cu_seqlens.tolist()):
        parts = (one[first:end].transpose(0, 1)[None] for one in (q, k, v))
        found.append(scaled_dot_product_attention(*parts)[0].transpose(0, 1))
    return torch.cat(found)


my_kernel.claims = {"work": "4n²d"}
"""


def test_a_sweep_of_equal_and_unequal_lengths_has_a_table_of_each_and_judges_claims_on_real_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("packed.py").write_text(KERNEL)
    impls = "impl=./packed.py:my_kernel,sdpa.varlen,sdpa.fused,rnn.elman"
    assert main(["sweep", impls, "seq_len=24,48", "lengths=equal,zipf", "out=run", *TINY, *ROUNDS]) == 0
    shown = capsys.readouterr().out
    of_equal, of_zipf = shown.split("Cost of one call")[1:]
    assert "zipf lengths" in of_zipf
    assert "39 % padding" in of_zipf
    assert "padding" not in of_equal
    summary = pd.read_csv("run/summary.csv")
    assert (summary.status == "ok").all()
    unequal = summary[(summary.lengths == "zipf") & (summary.seq_len == 48)].set_index("impl")
    assert unequal.lengths_as.to_dict() == {
        "./packed.py:my_kernel": "packed",
        "sdpa.varlen": "packed",
        "sdpa.fused": "padded",
        "rnn.elman": "padded",
    }
    assert (unequal.real_tokens == 48 + 24 + 16).all()
    assert unequal.padding_share["sdpa.fused"] == pytest.approx(1 - 88 / 144)
    assert unequal.flops["sdpa.varlen"] == 4 * (48**2 + 24**2 + 16**2) * 16
    assert unequal.tokens_per_s["sdpa.fused"] == pytest.approx(
        88 / unequal.time_s["sdpa.fused"], rel=1e-4
    )  # of six digits
    claims = pd.read_csv("run/claims.csv")
    work = claims[claims.quantity == "work"]
    assert len(work) == 8
    assert set(work.verdict) == {"confirmed"}


def test_paged_decoding_is_swept_over_its_page_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lengths.txt").write_text("40\n10\n20\n")
    own = ["impl=sdpa.paged", "mode=decode", "seq_len=40", "layer.page_size=4,16", "lengths=lengths.txt", "out=run"]
    assert main(["sweep", *own, *TINY, *ROUNDS]) == 0
    summary = pd.read_csv("run/summary.csv")
    assert set(summary.options) == {"page_size=4", "page_size=16"}
    assert (summary.flops == 4 * (40 + 10 + 20) * 16).all()
    assert (summary.flops == summary.flops_claimed).all()
    assert set(summary.sequence_lengths) == {"40,10,20"}
