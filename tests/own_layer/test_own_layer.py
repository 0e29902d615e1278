"""A user's own layer in a directory of its own: only the command is the project's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

HERE = Path(__file__).parent
FILES = ("averaging.py", "averaging_more.py", "packed_kernel.py", "published.py")
QUICK = ["num_heads=2", "precision.trial_s=0.01", "precision.min_rounds=1", "precision.max_rounds=1"]
QUICK += ["precision.patience_s=0", "out=out", "--no-plots"]
# In every way that it can be asked for at all: what cannot be is refused in a line.
EVERYTHING = ("mode=train,backward,decode", "mask=none,causal,padding")


def somewhere(directory: Path) -> Path:
    """The directory, with copies of the layers' files alone."""
    for file in FILES:
        shutil.copy(HERE / file, directory)
    return directory


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


@pytest.fixture(scope="module")
def of_one_class(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a user's file with a single class beside a built-in layer."""
    directory = somewhere(tmp_path_factory.mktemp("theirs"))
    asked = ("seq_len=16,32", "d_model=16", "mode=forward,decode", *QUICK)
    harness(directory, "sweep", "impl=averaging:Averaging,attention.fused", *asked)
    return directory


def test_one_file_with_one_class_is_measured_by_one_command(of_one_class: Path) -> None:
    table = summary(of_one_class).query("mode == 'forward'")
    assert set(table.impl) == {"averaging:Averaging", "attention.fused"}
    assert set(table.status) == {"ok"}
    assert (table.time_s > 0).all()
    assert {path.name for path in of_one_class.iterdir() if path.name != "__pycache__"} == {*FILES, "out"}


def test_what_it_cannot_be_asked_for_is_told_and_the_rest_is_measured(of_one_class: Path) -> None:
    theirs, ours = (
        summary(of_one_class).query("mode == 'decode' and impl == @impl")
        for impl in ("averaging:Averaging", "attention.fused")
    )
    assert set(theirs.reason) == {"it has no start and step to decode with"}
    assert set(ours.status) == {"ok"}


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output for the two layers that declare more."""
    directory = somewhere(tmp_path_factory.mktemp("theirs"))
    impls = "impl=averaging_more:Averaging,packed_kernel:PackedKernel"
    return " ".join(harness(directory, "verify", "--all", impls, *EVERYTHING).split())


def test_with_claims_masks_and_steps_it_is_verified_in_every_mode_and_under_every_mask(verified: str) -> None:
    assert verified.count("AveragingReference") == 7
    assert "unsupported one token after another has no padding" in verified


def test_a_kernel_that_is_given_queries_keys_and_values_side_by_side_is_held_against_ours(verified: str) -> None:
    assert verified.count("SdpaReference") == 6
    assert "unsupported its input is 3 times as wide as its output" in verified


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The verdicts on what a layer claims, and on what the same layer would claim too much."""
    directory = somewhere(tmp_path_factory.mktemp("theirs"))
    right = (directory / "averaging_more.py").read_text()
    too_much = right.replace('"work": "2nd²"', '"work": "8nd² + 4n²d"').replace('"2d²"', '"8d² + 4nd"')
    (directory / "claims_too_much.py").write_text(too_much)
    # Enough sizes for a claim by order to be told.
    asked = ("seq_len=16,32,64", "d_model=16", "mode=forward,train,decode", *QUICK)
    harness(directory, "sweep", "impl=averaging_more:Averaging,claims_too_much:Averaging", *asked)
    return pd.read_csv(directory / "out" / "claims.csv").set_index(["impl", "quantity"])


def test_its_claims_get_verdicts(claims: pd.DataFrame) -> None:
    its = claims.loc["averaging_more:Averaging"]
    for quantity in ("work", "work_train", "work_decode", "depth"):
        assert its.verdict[quantity] == "confirmed", its.reason[quantity]


def test_a_claim_of_too_much_is_refuted(claims: pd.DataFrame) -> None:
    its = claims.loc["claims_too_much:Averaging"]
    assert set(its.verdict[["work", "work_decode"]]) == {"refuted"}


def test_layers_of_published_packages_take_a_few_lines(tmp_path: Path) -> None:
    pytest.importorskip("minGRU_pytorch", reason="pip install minGRU-pytorch")
    pytest.importorskip("x_transformers", reason="pip install x-transformers")
    impls = "impl=published:MinGRU,published:XAttention,attention.packed"
    asked = ("seq_len=16", "d_model=16", "mode=train,decode", "mask=causal", *QUICK)
    harness(somewhere(tmp_path), "sweep", impls, *asked)
    table = summary(tmp_path)
    unsupported = table[table.status != "ok"]
    assert set(unsupported.impl) == {"published:XAttention"}
    assert set(unsupported.reason) == {"it has no start and step to decode with"}
    trained = table[table["mode"] == "train"]
    ours, theirs = (trained[trained.impl == impl] for impl in ("attention.packed", "published:XAttention"))
    assert len(ours) == 1
    assert theirs.flops.tolist() == ours.flops.tolist()
