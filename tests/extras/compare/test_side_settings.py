"""The two sides of `compare` as a user gives them: what each holds, and which are errors. Nothing is measured."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from planted_environments import packages_of, plant_environment, plant_version

from harness.core.model.background_process import check_interpreter
from harness.core.model.errors import UsageError
from harness.core.run.fork_client import Runtime
from harness.extras.compare.commands import read_comparison_request
from harness.extras.compare.compared_sides import ComparisonRequest


def request_of(*arguments: str) -> ComparisonRequest:
    return read_comparison_request(["impl=rnn.torch", *arguments], None)


def sides_of(*arguments: str) -> list[tuple[str, dict[str, Any], Runtime]]:
    sides = request_of(*arguments).sides
    assert sides is not None
    return [(side.text, dict(side.axes), side.runtime) for side in sides]


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with three directories that look like environments."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "an a"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").symlink_to(sys.executable)
    return tmp_path


def test_a_side_holds_axes_and_variables() -> None:
    assert sides_of("side=threads=1 env.OMP_WAIT_POLICY=passive", "side=n=64 dtype=bfloat16") == [
        ("threads=1 env.OMP_WAIT_POLICY=passive", {"threads": 1}, Runtime(None, {"OMP_WAIT_POLICY": "passive"})),
        ("n=64 dtype=bfloat16", {"seq_len": 64, "dtype": "bfloat16"}, Runtime()),
    ]


def test_an_empty_side_is_the_default_and_a_variable_may_hold_blanks_and_equals_signs() -> None:
    base, head = sides_of("side=", "side=env.GLIBC_TUNABLES='glibc.malloc.check=0 x'")
    assert base == ("", {}, Runtime())
    assert head[2].variables == {"GLIBC_TUNABLES": "glibc.malloc.check=0 x"}
    assert request_of("side=", "side=allocator=fresh").title == "compare rnn.torch: allocator=fresh with the default"


def test_a_side_replaces_the_value_that_both_would_have() -> None:
    request = request_of("side=", "side=threads=3", "threads=1,2")
    assert request.sides is not None
    assert [side.config.axes["threads"] for side in request.sides] == [(1, 2), (3,)]
    assert request.config.axes["threads"] == (1, 2)
    assert request.config.axes["allocator"] == ("steady",)


def test_env_names_two_environments_whose_links_are_not_followed(environments: Path) -> None:
    found = sides_of("env=a,an a")
    assert [runtime.python for _, _, runtime in found] == [
        f"{environments}/a/bin/python",
        f"{environments}/an a/bin/python",
    ]
    assert found == [
        (text, {}, runtime) for text, (_, _, runtime) in zip(["python=a", "python='an a'"], found, strict=True)
    ]
    assert (
        sides_of("side=python=a", f"side=python={environments}/b/bin/python")[1][2].python
        == f"{environments}/b/bin/python"
    )


def test_a_side_takes_env_for_python_as_a_sweep_does(environments: Path) -> None:
    assert [side[2] for side in sides_of("side=env=a", "side=")] == [Runtime(f"{environments}/a/bin/python"), Runtime()]


def test_a_control_is_a_third_environment(environments: Path) -> None:
    assert request_of("env=a,b", "control=an a").control == f"{environments}/an a/bin/python"
    assert request_of("env=a,b").control is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["side=threads=1"], "compare takes two sides"),
        (["side=", "side=threads=1", "side=threads=2"], "compare takes two sides"),
        (["side=threads=1", "side=threads=1"], "both sides are the same"),
        (["side=", "side=allocator=steady"], "both sides are the same"),
        (["side=", "side=env.SET_ALREADY=yes"], "both sides are the same"),
        (["side=", f"side=python={sys.executable}"], "both sides are the same"),
        (["env=a,a"], "both sides are the same"),
        (["side=threads=1", "side=threads=8", "threads=2"], "threads=2 has no effect, because both sides set it"),
        (["side=", "side=threads=1,2"], "a side has one value of threads"),
        (["side=", "side=threads=0"], "threads=0: it takes whole numbers from 1 to 1024"),
        (["side=", "side=thread=1"], "unknown key 'thread'; did you mean 'threads'?"),
        (["side=", "side=threads"], "'threads' is not of the form key=value"),
        (["side=", "side=threads=1 threads=2"], "threads is given twice"),
        (["side=", "side=env.X='1"], "a quote is missing"),
        (["side=", "side=env.1X=1"], "unknown key 'env.1X'"),
        (["side=", "side=env.OMP_NUM_THREADS=8"], "the harness sets the number of threads: give threads=N"),
        (["side=", "side=env.PYTHONPATH=src"], "give python=… for another environment"),
        (["side=", "side=window=8"], "; a keyword of the layer is layer.window=…"),
        (["side=", "side=impl=rnn.elman"], "give two layers as impl=A,B"),
        (["side=", "side=threads=1", "ref=main"], "ref=main gives both sides"),
        (["env=a,b", "side=threads=1"], "env=A,B gives both sides"),
        (["env=a"], "compare takes two environments"),
        (["env="], "'env=' is not of the form env=…"),
        (["env=a,absent"], "absent is neither an environment with bin/python nor an interpreter"),
        (["env=a,b", "control=absent"], "absent is neither an environment"),
        (["side=", "side=threads=1", "control=a"], "control=a is a copy of the base's environment: give env=A,B too"),
    ],
)
def test_sides_that_cannot_be_compared_are_errors_of_one_line(
    arguments: list[str], message: str, environments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET_ALREADY", "yes")
    with pytest.raises(UsageError) as raised:
        request_of(*arguments)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("impl", [[], ["impl=rnn.torch,rnn.elman"]])
def test_two_settings_are_of_one_layer(impl: list[str]) -> None:
    with pytest.raises(UsageError, match="give impl=LAYER"):
        read_comparison_request(["side=", "side=threads=1", *impl], None)


def test_a_layer_is_not_compared_with_itself() -> None:
    with pytest.raises(UsageError, match="or two sides of one layer, side="):
        read_comparison_request(["impl=kern:sinks,kern:sinks", "layer.window=32,64"], None)


def test_an_environment_whose_torch_is_too_old_is_named(tmp_path: Path) -> None:
    old = plant_environment(tmp_path / "old", "1.0", "")
    packages = packages_of(old)
    (packages / "running.pth").unlink()
    for name in ("torch", "numpy", "scipy"):
        (packages / name).mkdir()
    plant_version(packages, "torch", "2.5.1+cpu")
    with pytest.raises(UsageError, match=r"old/bin/python has torch 2\.5\.1\+cpu: trials need 2\.6 or newer"):
        check_interpreter(str(old / "bin" / "python"))
    (packages / "torch-2.5.1+cpu.dist-info").rename(packages / "torch-2.10.0.dist-info")
    (packages / "torch-2.10.0.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.10.0\n")
    check_interpreter(str(old / "bin" / "python"))


def test_an_environment_without_torch_is_named(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    with pytest.raises(UsageError, match="bare/bin/python has no torch and no numpy and no scipy: install it there"):
        check_interpreter(str(tmp_path / "bare" / "bin" / "python"))
    check_interpreter(sys.executable)
    with pytest.raises(UsageError, match="cannot be run as a Python interpreter"):
        check_interpreter("/bin/true")


def test_sides_on_a_gpu_are_compared_with_a_hot_cache() -> None:
    assert request_of("side=", "side=num_kv_heads=1", "device=cuda").config.axes["cache"] == ("hot",)
    assert request_of("side=", "side=launch=graph", "device=cuda").config.axes["launch"] == ("eager",)


@pytest.mark.parametrize("arguments", [["ref=main", "cache=cold"], ["side=", "side=cache=clean"]], ids="".join)
def test_another_cache_of_a_gpu_is_refused(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="with a hot cache: leave cache out, or use sweep"):
        request_of(*arguments, "device=cuda")


def test_a_comparison_takes_a_head_dim() -> None:
    request = read_comparison_request(["impl=rnn.torch,rnn.elman", "head_dim=64", "num_heads=2,4"], None)
    assert [point["d_model"] for point in request.config.points] == [128, 256]


def test_two_layers_may_have_names_in_any_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zwei wörter").mkdir()
    names = ("mein_modül:Schön", "./zwei wörter/größe.py:Schön")
    for file in ("mein_modül.py", "zwei wörter/größe.py"):
        Path(file).touch()
    asked = read_comparison_request([f"impl={','.join(names)}", "seq_len=8"], None)
    assert asked.impls == names
    assert asked.config.axes["impl"] == names
