"""Kernels of other packages, measured from another directory: their costs and errors are those of their papers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.verify import verify

HERE = Path(__file__).parent
SIZES = ["d_model=64", "num_heads=4", "threads=1"]
QUICK = ["precision.trial_s=0.01", "precision.min_rounds=1", "precision.max_rounds=1", "precision.patience_s=0"]
PACKAGES = ("linear_attention_transformer", "local_attention", "mambapy", "nystrom_attention", "performer_pytorch")
POINTS = "points=[{mode:forward,seq_len:128},{mode:forward,seq_len:256},{mode:train,seq_len:256}]"
EXACT = (
    *("functions:local", "functions:linear", "functions:causal_linear", "functions:scan"),
    *("layers:Mamba", "x_transformers_layer:XTransformers"),
)
APPROXIMATE = ("functions:performer", "layers:Nystrom")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files of kernels alone."""
    for package in (*PACKAGES, "x_transformers"):
        pytest.importorskip(package, reason=f"pip install {package.replace('_', '-')}")
    found = tmp_path_factory.mktemp("kernels")
    for name in ("functions.py", "layers.py", "x_transformers_layer.py"):
        shutil.copy(HERE / name, found)
    return found


def harness(place: Path, *arguments: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"COLUMNS": "200"}
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, cwd=place, env=clean, capture_output=True, text=True, timeout=280)


def swept(place: Path, *arguments: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The summary and the claims of a sweep, all cases of which must end well."""
    done = harness(place, "sweep", *arguments, *SIZES, *QUICK, "--no-plots", "out=out", "--fresh")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = pd.read_csv(place / "out" / "summary.csv")
    assert set(summary.status) == {"ok"}
    return summary, pd.read_csv(place / "out" / "claims.csv")


@pytest.fixture(scope="module")
def sweep(place: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return swept(place, f"impl={','.join((*EXACT, *APPROXIMATE))}", POINTS)


def test_kernels_do_the_work_that_their_papers_claim(sweep: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    summary, claims = sweep
    work = claims[claims.quantity.isin(["work", "work_train"])]
    assert len(work) == 11
    assert set(work.verdict) == {"confirmed"}, work.to_string()
    # Linear in n but for the one that is softmax attention.
    flops = summary[summary["mode"] == "forward"].pivot(index="impl", columns="seq_len", values="flops")
    doubled = flops[256] / flops[128]
    assert (doubled[doubled > 2.001].index == ["x_transformers_layer:XTransformers"]).all()


def test_scans_take_two_steps_more_for_twice_the_tokens_and_attention_none(
    sweep: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    forward = sweep[0][sweep[0]["mode"] == "forward"]
    depth = forward.pivot(index="impl", columns="seq_len", values="depth")
    longer = depth[256] - depth[128]
    # mambapy says of its scan "2·log2(T) sequential steps". A step is a product and a sum.
    assert dict(longer[longer > 0]) == {"functions:scan": 4, "layers:Mamba": 4}


def test_kernels_that_compute_a_formula_lose_no_more_digits_than_its_plain_form(
    sweep: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    summary = sweep[0].set_index("impl").loc[list(EXACT)]
    trained = summary[summary["mode"] == "train"]
    assert summary.output_error.between(1e-9, 1e-6).all(), summary.output_error
    assert trained.gradient_error.between(1e-9, 2e-6).all(), trained.gradient_error
    assert summary.error_ratio.between(0.5, 1.5).all(), summary.error_ratio
    references = summary.accuracy_by.str.removeprefix("all tokens, ")
    assert references.to_dict() == {
        "functions:local": "banded",
        "functions:linear": "efficient",
        "functions:causal_linear": "kernel_sums",
        "functions:scan": "recurrence",
        "layers:Mamba": "Sequential",
        "x_transformers_layer:XTransformers": "Formula",
    }


@pytest.mark.parametrize(
    ("impl", "axis", "worst", "best"),
    [("functions:performer", "features=64,1024", 0.2, 0.1), ("layers:Nystrom", "landmarks=8,128", 0.2, 0.03)],
)
def test_approximations_get_closer_to_softmax_attention(
    place: Path, impl: str, axis: str, worst: float, best: float
) -> None:
    summary, claims = swept(place, f"impl={impl}", f"layer.{axis}", "seq_len=128")
    few, many = summary.sort_values("flops").output_error
    assert many < best < worst < few
    assert claims[claims.quantity == "work"].verdict.tolist() == ["confirmed"]


def test_mamba_decodes_by_its_own_step(place: Path) -> None:
    summary, claims = swept(place, "impl=layers:Mamba", "mode=decode", "seq_len=64,128")
    assert claims[claims.quantity == "work_decode"].verdict.tolist() == ["confirmed"]
    assert (summary.output_error < 1e-6).all()


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("name", ["eager", "sdpa"])
def test_attention_functions_of_transformers_are_correct_under_every_mask(name: str, mask: str) -> None:
    """In this process, because each trial would import transformers, which takes seconds."""
    pytest.importorskip("transformers", reason="pip install transformers")
    impl = f"{HERE / 'transformers_functions.py'}:{name}"
    assert verify(Case(impl, 32, 64, 4, mode="train", mask=mask), seed=0)["against"] == "softmax_attention"


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("name", ["eager", "sdpa"])
def test_attention_functions_of_transformers_do_the_work_that_they_claim(name: str, mode: str) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    case = Case(f"{HERE / 'transformers_functions.py'}:{name}", 128, 64, 4, mode=mode)
    facts = collect_metrics(case, seed=0)
    assert facts["flops"] == facts["flops_claimed"] > 0
