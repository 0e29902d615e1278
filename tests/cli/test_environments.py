"""`sweep env=A,B` measures every case in each environment, by its interpreter, and says which versions these have.

Another version of torch takes gigabytes, so CI has none. To test two versions, name an environment with another one:
`HARNESS_OTHER_TORCH=.venv-torch26 python -m pytest -m slow tests/cli/test_environments.py`.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from planted_environments import packages_of, plant_environment, plant_version

from harness.cli.commands import main

TINY = ["d_model=16", "num_heads=1", "threads=1", "precision.trial_s=0.01", "precision.patience_s=0", "--no-plots"]
SWEEP = ["sweep", "impl=worked:Layer", "seq_len=16,32", *TINY, "precision.min_rounds=2", "precision.max_rounds=2"]
IN_BOTH = [*SWEEP, "env=a,b", "out=run"]
# The number of products of n·d² multiply-adds.
LAYER = """\
from torch import Tensor, nn


class Layer(nn.Module):
    has_heads = {has_heads}

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range({products}):
            x = self.mix(x)
        return x
"""


OTHER_TORCH = os.environ.get("HARNESS_OTHER_TORCH", "")


def layer(products: int, has_heads: bool = False) -> str:
    return LAYER.format(products=products, has_heads=has_heads)


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two environments are: in `b`, the layer does twice the work."""
    where = tmp_path_factory.mktemp("environments")
    plant_environment(where / "a", "1.0", layer(1))
    plant_environment(where / "b", "2.0", layer(2))
    return where


@pytest.fixture(scope="module")
def measured(environments: Path) -> Path:
    """The same place, with a sweep of both in `run`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(environments)
        assert main(IN_BOTH) == 0
    return environments


@pytest.fixture
def here(environments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a copy of that place."""
    shutil.copytree(environments, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_a_case_is_measured_in_each_environment_and_has_its_facts(measured: Path, here: Path) -> None:
    frame = pd.read_csv("run/summary.csv")
    assert list(zip(frame.seq_len, frame.env, frame.flops, strict=True)) == [
        (n, env, products * 2 * n * 16**2) for n in (16, 32) for env, products in (("a", 1), ("b", 2))
    ]
    assert (frame.status == "ok").all()
    assert set(pd.read_csv("run/laws.csv").env) == {"a", "b"}
    assert {row["case"]["env"] for path in Path("run/rows").iterdir() for row in rows_of(path)} == {"a", "b"}


@pytest.mark.slow
def test_the_versions_in_each_are_recorded_and_shown(measured: Path, here: Path) -> None:
    machine = json.loads(Path("run/machine.json").read_text())
    assert list(machine["environments"]) == ["a", "b"]
    python = f"python {machine['python']}, torch {machine['torch']['version']}, "
    assert [text.startswith(python) for text in machine["environments"].values()] == [True, True]
    assert [text.rpartition(", ")[2] for text in machine["environments"].values()] == [
        "worked-layers 1.0",
        "worked-layers 2.0",
    ]
    report = Path("run/report.md").read_text()
    assert f"environments a: {machine['environments']['a']}; b: " in report
    assert "## forward, float32, batch 1, cpu, 1 thread, a\n" in report
    assert "## forward, float32, batch 1, cpu, 1 thread, b\n" in report


@pytest.mark.slow
def test_a_run_continues_in_the_environment_of_each_case(measured: Path, here: Path) -> None:
    [file] = Path("run/rows").iterdir()
    kept = [row for row in rows_of(file) if row["case"]["env"] == "a"]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in kept))
    before = pd.read_csv("run/summary.csv")
    assert main(IN_BOTH) == 0
    later = rows_of(max(Path("run/rows").iterdir()))
    assert {row["case"]["env"] for row in later} == {"b"}
    after = pd.read_csv("run/summary.csv")
    assert list(after.flops) == list(before.flops)
    assert list(after.trials) == [2, 2, 2, 2]


@pytest.mark.slow
def test_a_run_does_not_continue_with_other_versions_or_other_environments(
    measured: Path, here: Path, capsys: pytest.CaptureFixture
) -> None:
    shutil.rmtree(packages_of(Path("b")) / "worked_layers-2.0.dist-info")
    plant_version(packages_of(Path("b")), "worked", "2.1")
    assert main(IN_BOTH) == 2
    said = capsys.readouterr().err
    assert "out=run was measured on another machine (env=b python " in said
    assert "worked-layers 2.0 before and python " in said
    assert "worked 2.1 now)" in said
    (packages_of(Path("b")) / "worked" / "__init__.py").write_text(layer(3))
    assert main(IN_BOTH) == 2
    assert "changed since: worked:Layer in b/lib/python" in capsys.readouterr().err
    assert main([*SWEEP, "env=a", "out=run"]) == 2
    assert "out=run is another sweep (env=a,b before and a now)" in capsys.readouterr().err


@pytest.mark.slow
def test_a_baseline_of_several_environments_is_refused(
    measured: Path, here: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["baseline", "run"]) == 2
    assert capsys.readouterr().err == "harness: run was measured in env=a,b: a baseline is of one environment\n"


@pytest.mark.slow
def test_a_layer_is_verified_in_each_environment(here: Path, capsys: pytest.CaptureFixture) -> None:
    code = layer(1).replace("return x", "return x if x.dtype.itemsize == 8 else x + 1")
    (packages_of(here / "b") / "worked" / "__init__.py").write_text(code)
    assert main(["verify", "impl=worked:Layer", "env=a,b", "seq_len=16", *TINY[:3]]) == 3
    said = capsys.readouterr().out
    assert "worked:Layer  1 ok, 1 incorrect" in said


@pytest.mark.slow
def test_a_layer_with_other_traits_in_one_environment_or_none_is_an_error(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main([*SWEEP, "env=default,a", "out=new"]) == 2
    assert capsys.readouterr().err == (
        "harness: env=default: impl 'worked:Layer': ModuleNotFoundError: No module named 'worked'\n"
    )
    (packages_of(here / "b") / "worked" / "__init__.py").write_text(layer(1, has_heads=True))
    assert main([*SWEEP, "env=a,b", "out=new"]) == 2
    assert capsys.readouterr().err == (
        "harness: impl 'worked:Layer' has another family or other heads in env=b than in env=a: "
        "sweep each environment by itself\n"
    )
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("absent", "absent is neither an environment with bin/python nor an interpreter"),
        ("a,a", "env=a,a: a is given twice: leave one of them out"),
        ("a,./a", "env=a,./a: a and ./a are the same environment: leave one of them out"),
        ("a,a/bin/python", "env=a,a/bin/python: a and a/bin/python are the same environment: leave one of them out"),
        ("default,HERE", "env=default,HERE: default and HERE are the same environment: leave one of them out"),
        ("/bin/true", "/bin/true cannot be run as a Python interpreter"),
    ],
)
def test_what_is_no_environment_or_one_twice_is_an_error_of_one_line(
    value: str, said: str, here: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main([*SWEEP, f"env={value.replace('HERE', sys.executable)}", "out=new"]) == 2
    assert capsys.readouterr().err == f"harness: {said.replace('HERE', sys.executable)}\n"
    assert not Path("new").exists()


def test_an_environment_whose_torch_is_broken_is_told_by_two_lines(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant_environment(Path("broken"), "1.0", layer(1))
    (packages,) = Path("broken").glob("lib/python*/site-packages")
    for name in ("torch", "numpy"):
        (packages / f"{name}.py").write_text("import nothing_such\n")
    assert main([*SWEEP, "env=broken", "out=new"]) == 2
    first, second = capfd.readouterr().err.splitlines()
    assert first.endswith("bin/python: ModuleNotFoundError: No module named 'nothing_such'")
    assert second.startswith("harness: the fork server did not start: can torch be imported by ")


@pytest.mark.slow
@pytest.mark.skipif(not OTHER_TORCH, reason="HARNESS_OTHER_TORCH names no environment with another version of torch")
def test_two_versions_of_torch_are_measured_side_by_side_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = str(Path(OTHER_TORCH).absolute())
    monkeypatch.chdir(tmp_path)
    of_both = [f"env=default,{other}", "impl=attention.fused,rnn.elman", "seq_len=16,32", *TINY]
    assert main(["sweep", *of_both, "precision.max_rounds=3", "out=run"]) == 0
    frame = pd.read_csv("run/summary.csv")
    assert (frame.status == "ok").all()
    own, others = (frame[frame.env == env].reset_index(drop=True) for env in ("default", other))
    assert list(own.flops) == list(others.flops), "the work does not depend on torch"
    assert list(own.depth) == list(others.depth)
    versions = json.loads(Path("run/machine.json").read_text())["environments"]
    assert versions["default"] != versions[other]
