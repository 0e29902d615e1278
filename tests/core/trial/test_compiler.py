"""How the compiler is set up in a trial."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.trial import compilation
from harness.core.trial.compilation import NotCompiled

CASE = Case("planted_compiled:SaysSo", 8, 4, 1)


@pytest.mark.parametrize("name", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_where_it_is_switched_off_asking_for_it_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch, "compile", torch.compile)  # put back in the end
    monkeypatch.setenv(name, "1")
    compilation.prepare_compiler(CASE)
    with pytest.raises(NotCompiled, match=f"{name}=1 switches the compiler off"):
        torch.compile(torch.tanh)


def test_a_layer_that_says_it_is_compiled_and_made_no_graph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "compilations", lambda: 0)
    with pytest.raises(NotCompiled, match="made no compiled graph"):
        compilation.check_compiled(CASE)
    compilation.check_compiled(Case("planted_compiled:Mixes", 8, 4, 1))
    compilation.check_compiled(Case("attention.fused", 8, 4, 1))
    monkeypatch.setattr(compilation, "compilations", lambda: 1)
    compilation.check_compiled(CASE)


def test_what_is_compiled_is_kept_where_it_is_told_to_and_nothing_is_made_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "before")
    compilation.keep_cache_in(None)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "before"
    compilation.keep_cache_in(str(tmp_path / "cache"))
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "cache")
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "cache" / "triton")
    assert not (tmp_path / "cache").exists()


def test_tritons_driver_of_a_gpu_is_compiled_for_the_first_case_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "before")
    first, second = (tmp_path / name for name in ("first", "second"))
    for file in ("triton/ab12/cuda_utils.cpython-311.so", "triton/cd34/kernel.cubin"):
        (first / file).parent.mkdir(parents=True)
        (first / file).write_text(file)
    compilation.keep_cache_in(str(second))  # there is none yet
    assert not second.exists()
    compilation.keep_stubs(str(first))
    compilation.keep_cache_in(str(second))
    assert [path.name for path in second.rglob("*.*")] == ["cuda_utils.cpython-311.so"]
    compilation.keep_stubs(None)


def test_neither_the_process_that_trials_are_forked_from_nor_a_layer_nor_a_counted_call_imports_the_compiler() -> None:
    code = (
        "import sys\n"
        "from harness.core.layers import layer_lookup\n"
        "from harness.core.model.sweep_axes import Case\n"
        "from harness.core.trial import accuracy, fork_server, workload\n"
        "for name in layer_lookup.IMPLS: layer_lookup.load_class(name)\n"
        "workload.build(Case('attention.fused', 8, 8, 2), seed=0)\n"
        "with accuracy._WorkCounter(): pass\n"  # torch would import the compiler to keep it out of such a class
        "print([name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules])\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


def test_what_torch_keeps_by_itself_does_not_move_to_a_temporary_directory_of_a_trial() -> None:
    code = (
        "import tempfile\n"
        "from harness.core.trial import compilation\n"
        "compilation.set_up_compiler()\n"
        "before, tempfile.tempdir = tempfile.gettempdir(), '/elsewhere'\n"
        "from torch._inductor.runtime.cache_dir_utils import cache_dir, default_cache_dir\n"
        "assert cache_dir() == default_cache_dir().replace('/elsewhere', before), cache_dir()\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
