"""Somebody's own layer, in a directory of its own, with nothing of ours but the command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

HERE = Path(__file__).parent
QUICK = ["num_heads=2", "precision.trial_s=0.01", "precision.min_rounds=2", "precision.max_rounds=2", "out=out"]
SMALL = ["seq_len=16,32", "d_model=16", *QUICK]
# Enough sizes for a claim by order to be told.
SIZES = ["seq_len=16,32,64", "d_model=16,32", *QUICK]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory with copies of the layers' files alone."""
    for file in ("averaging.py", "averaging_more.py", "packed_kernel.py", "published.py"):
        shutil.copy(HERE / file, tmp_path)
    return tmp_path


def harness(directory: Path, *arguments: str) -> str:
    """What the command prints; it must end well."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        cwd=directory,
        env=clean | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def summary(directory: Path) -> pd.DataFrame:
    return pd.read_csv(directory / "out" / "summary.csv")


def test_one_file_with_one_class_is_measured_by_one_command(elsewhere: Path) -> None:
    harness(elsewhere, "sweep", "impl=averaging:Averaging,attention.fused", *SMALL)
    table = summary(elsewhere)
    assert set(table.impl) == {"averaging:Averaging", "attention.fused"}
    assert set(table.status) == {"ok"}
    assert (table.time_s > 0).all()


def test_what_it_cannot_be_asked_for_is_told_and_the_rest_is_measured(elsewhere: Path) -> None:
    harness(elsewhere, "sweep", "impl=averaging:Averaging", "mode=forward,decode", "mask=none,causal", *SMALL)
    table = summary(elsewhere)
    assert set(table[table["mode"] == "decode"].reason) == {"it has no start and step to decode with"}
    assert set(table[(table["mode"] == "forward") & (table["mask"] == "none")].status) == {"ok"}


def test_with_claims_masks_and_steps_it_is_verified_in_every_mode_and_under_every_mask(elsewhere: Path) -> None:
    said = harness(
        elsewhere,
        *("verify", "impl=averaging_more:Averaging", "mode=train,backward,decode", "mask=none,causal,padding"),
    )
    assert said.count("AveragingReference") == 7
    assert "unsupported: one token after another has no padding" in said


def test_a_kernel_that_is_given_queries_keys_and_values_side_by_side_is_held_against_ours(elsewhere: Path) -> None:
    said = harness(
        elsewhere,
        *("verify", "impl=packed_kernel:PackedKernel", "mode=train,backward,decode", "mask=none,causal,padding"),
    )
    assert said.count("SdpaReference") == 6
    assert "unsupported: its input is 3 times as wide as its output" in said


def test_its_claims_get_verdicts(elsewhere: Path) -> None:
    harness(elsewhere, "sweep", "impl=averaging_more:Averaging", "mode=forward,train,decode", *SIZES)
    claims = pd.read_csv(elsewhere / "out" / "claims.csv").set_index("quantity")
    assert {"work", "work_train", "work_decode", "depth"} <= set(claims.index)
    for quantity in ("work", "work_train", "work_decode", "depth"):
        assert claims.verdict[quantity] == "confirmed", claims.reason[quantity]


def test_a_claim_of_too_much_is_refuted(elsewhere: Path) -> None:
    file = elsewhere / "averaging_more.py"
    file.write_text(file.read_text().replace('"work": "2nd²"', '"work": "8nd² + 4n²d"').replace('"2d²"', '"8d² + 4nd"'))
    harness(elsewhere, "sweep", "impl=averaging_more:Averaging", "mode=forward,decode", *SMALL)
    claims = pd.read_csv(elsewhere / "out" / "claims.csv").set_index("quantity")
    assert set(claims.verdict[["work", "work_decode"]]) == {"refuted"}


def test_layers_of_published_packages_take_a_few_lines(elsewhere: Path) -> None:
    pytest.importorskip("minGRU_pytorch", reason="pip install minGRU-pytorch")
    pytest.importorskip("x_transformers", reason="pip install x-transformers")
    impls = "impl=published:MinGRU,published:XAttention,attention.packed"
    harness(elsewhere, "sweep", impls, "mode=forward,train,decode", "mask=none,causal", *SMALL)
    table = summary(elsewhere)
    unsupported = table[table.status != "ok"]
    assert set(unsupported.impl) == {"published:XAttention"}
    assert set(unsupported.reason) == {"it has no start and step to decode with"}
    ours = table[(table.impl == "attention.packed") & (table["mode"] == "forward") & (table["mask"] == "none")]
    theirs = table[(table.impl == "published:XAttention") & (table["mode"] == "forward") & (table["mask"] == "none")]
    assert theirs.flops.tolist() == ours.flops.tolist()
