"""What people type who know other tools: it works, or one line says what to type instead."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli.commands import main
from harness.cli.parsers import parse_options
from harness.core.config import compose
from harness.core.config.key_value_options import Key, bytes_in, read_keys, usable_cpus, whole
from harness.core.layers import layer_lookup
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import OWN_ENVIRONMENT
from harness.core.results.run_directory import check_new
from harness.core.run.outcome import TrialOutcome
from harness.core.run.session import Session
from harness.core.trial.device_kinds import TorchDevice, XpuDevice
from harness.study.laws.predict import laws_requested

POINTS = "points=[{seq_len:512,batch_size:32},{seq_len:1024,batch_size:16}]"


@pytest.mark.parametrize(
    ("typed", "axis", "values"),
    [
        ("dtype=fp16", "dtype", ("float16",)),
        ("dtype=half,bf16,fp32", "dtype", ("float16", "bfloat16", "float32")),
        ("dtype=[BF16,float64]", "dtype", ("bfloat16", "float64")),
        ("device=gpu", "device", ("cuda",)),
        ("n=128", "seq_len", (128,)),
        ("seq_len=4k", "seq_len", (4096,)),
        ("seq_len=512,4k,1M", "seq_len", (512, 4096, 1048576)),
        ("seq_len=range(1k,4k,1K)", "seq_len", (1024, 2048, 3072)),
        ("d=1k", "d_model", (1024,)),
        ("points=[{n:4k,dtype:float16}]", "seq_len", (4096,)),
    ],
)
def test_words_and_numbers_of_other_tools_are_accepted(typed: str, axis: str, values: tuple) -> None:
    assert compose([typed], for_sweep=True).axes[axis] == values


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("64M", 64 * 2**20), ("8GB", 8 * 10**9), ("8gb", 8 * 10**9), ("1.5GiB", 3 * 2**29), ("2t", 2**41)),
        *(("512", 512), ("8XB", None), ("M", None), ("", None)),
    ],
)
def test_memory_has_binary_and_decimal_units(text: str, number: int | None) -> None:
    assert bytes_in(text) == number


def test_a_continued_run_takes_either_spelling_for_the_same_configuration() -> None:
    assert compose(["seq_len=4k", "dtype=bf16"]).yaml == compose(["seq_len=4096", "dtype=bfloat16"]).yaml


def test_keys_outside_of_sweeps_take_the_same_words() -> None:
    known = (Key("seq_len", whole, many=True), Key("dtype"), Key("memory", bytes_in, most=2**63))
    given = read_keys(["n=1k,2k", "dtype=bf16", "memory=64M"], known)
    assert given == {"seq_len": (1024, 2048), "dtype": "bfloat16", "memory": 2**26}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("heads=8", "unknown key 'heads'; did you mean 'num_heads'?"),
        ("batch=8", "unknown key 'batch'; did you mean 'batch_size'?"),
        ("causal=true", "unknown key 'causal'; did you mean mask=causal?"),
        ("hidden_size=8", "unknown key 'hidden_size'; did you mean 'd_model'?"),
        ("impl=glob(attn.*)", "impl=glob(attn.*): no impl matches; did you mean 'attention.*'?"),
        ("impl=attn.*", "impl=attn.*: no impl matches; did you mean 'attention.*'?"),
        ("impl=rnm*", "impl=rnm*: no impl matches; did you mean 'rnn.*'?"),
        ("impl=zzz.*", "impl=zzz.*: no impl matches; known: rnn.*, attention.*, linear.*, sdpa.*, conv.*, fla.*"),
        (
            "seq_len=range(64,128",
            "cannot read 'seq_len=range(64,128': a ')' is missing; put the whole option in quotes",
        ),
        ("seq_len=[64,128", "cannot read 'seq_len=[64,128': a ']' is missing; put the whole option in quotes"),
        (
            "impl=sdpa.fused,",
            "cannot read 'impl=sdpa.fused,': write the values without spaces after the commas: impl=A,B",
        ),
        ("seq_len=64)", "cannot read 'seq_len=64)': a '(' is missing; put the whole option in quotes"),
        (
            "points=[{seq_len=512}]",
            "cannot read 'points=[{seq_len=512}]': a point takes ':' after a name: 'points=[{seq_len:512}]'",
        ),
        ("points=3", f"points takes a list of points, in quotes: '{POINTS}'"),
        ("seq_len=128 seq_len=256", "seq_len is given twice: give its values in one list, seq_len=A,B"),
        ("n=128 +seq_len=256", "unknown key '+seq_len'; did you mean 'seq_len'?"),
        ("seq_len = 128", "'seq_len' is not of the form key=value, without spaces"),
        ("seq_len= 128", "'128' is not of the form key=value, without spaces"),
        ("seq_len =128", "'seq_len' is not of the form key=value, without spaces"),
        ("precision=quick precision=strict", "precision is given twice"),
        ("scale=cpu scale=full paper=flashattention1", "scale is given twice"),
        (
            "points=[{seq_len:512}] seq_len=128",
            "seq_len=128 matches none of the points: seq_len=512; leave it out, or give points=null too",
        ),
    ],
)
def test_a_mistaken_option_gets_the_right_hint(typed: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        compose(typed.split(), for_sweep=True)
    assert str(caught.value).startswith(said)


# What bash makes of points without quotes: one point, and two.
@pytest.mark.parametrize(
    "words",
    [
        ["points=[seq_len:512]", "points=[batch_size:32]"],
        ["points=[seq_len:512,seq_len:1024]", "points=[seq_len:512,batch_size:16]", "points=[batch_size:32,n:1]"],
    ],
)
def test_points_whose_braces_the_shell_expanded_are_to_be_quoted(words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        compose(words, for_sweep=True)
    assert str(caught.value) == f"{words[0]}: your shell has expanded the braces; quote the option: '{POINTS}'"


@pytest.mark.parametrize(
    ("command", "typed", "said"),
    [
        ("sweep", ["--seq_len", "128"], "--seq_len is not a flag: write seq_len=128"),
        ("sweep", ["--seq-len=128"], "--seq-len is not a flag: write seq_len=128"),
        ("sweep", ["--impl", "rnn.torch", "--fresh"], "--impl is not a flag: write impl=rnn.torch"),
        ("verify", ["--dtype"], "--dtype is not a flag: write dtype=…"),
        ("sweep", ["--memory-limit", "8GB"], "--memory-limit is not a flag: write memory_limit=8GB"),
    ],
)
def test_a_setting_is_not_a_flag(command: str, typed: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_options(command, typed)
    assert str(caught.value) == said


def test_report_takes_its_baseline_as_a_key_too() -> None:
    assert parse_options("report", ["run", "baseline=sdpa.fused"]).baseline == "sdpa.fused"


@pytest.mark.parametrize(
    ("impl", "said"),
    [
        ("torch.nn:Lineer", "torch.nn has no 'Lineer'; did you mean 'Linear'?"),
        ("decimal:Nope", "decimal has no 'Nope'; it has "),
    ],
)
def test_classes_that_a_module_imports_count_too(impl: str, said: str) -> None:
    with pytest.raises(AttributeError) as caught:
        layer_lookup.load_class(impl)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("impl", "said"),
    [
        ("attention.gqa", "; it has attention.naive, rnn.torch"),
        ("mine:Layer", "; it has attention.naive, rnn.torch"),
        ("rnn.torh", "; did you mean 'rnn.torch'?"),
        ("lru", "; it has attention.naive, rnn.torch"),
    ],
)
def test_only_a_misspelt_layer_has_another_suggested(impl: str, said: str) -> None:
    assert layer_lookup.near_layer(impl, ["attention.naive", "rnn.torch"]) == said


def test_a_prediction_of_a_layer_that_was_not_measured_says_so() -> None:
    with pytest.raises(UsageError, match=r"^attention.gqa is not measured in results/run; it has "):
        laws_requested(["attention.gqa"], [], None, "results/run")  # type: ignore[arg-type]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_a_directory_that_root_cannot_write_to_either_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(UsageError, match=r"^out=/proc/x: /proc cannot be written to$"):
        check_new(Path("/proc/x"))


@pytest.mark.parametrize(
    ("device", "lacking", "said"),
    [
        (
            "cuda",
            None,
            "device=cuda: torch sees no CUDA device here; check the driver by 'nvidia-smi', and the variable "
            "CUDA_VISIBLE_DEVICES, or type 'device=cpu'",
        ),
        ("cuda", TorchDevice.install, f"device=cuda: torch sees no CUDA device here; {TorchDevice.install}"),
        ("mps", None, "device=mps: torch sees no MPS device here; type 'device=cpu'"),
        (
            "xpu",
            XpuDevice.install,
            f"device=xpu: torch sees no XPU device here; {XpuDevice.install}; type 'device=cpu'",
        ),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_told_from_another_build_of_torch(
    device: str, lacking: str | None, said: str
) -> None:
    answer = TrialOutcome("ok", None, {"gpu": None, "devices": {device: {"count": 0, "lacking": lacking}}})
    config = compose([f"device={device}"])
    executor = SimpleNamespace(environments=(OWN_ENVIRONMENT,), ask=lambda purpose: answer)
    executor.within = lambda environment: executor
    session = Session(executor, config.precision, 0)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        session.check_devices(config)
    assert str(caught.value) == said


def test_a_system_on_which_no_trial_can_run_is_told_what_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module, name in ((signal, "SIGALRM"), (os, "waitid")):  # Windows has neither, macOS lacks one before 3.13
        monkeypatch.delattr(module, name)
    assert main(["sweep"]) == 2
    needed = "Linux (WSL on Windows), or macOS with Python 3.13 or newer"
    assert capsys.readouterr().err == f"harness: it needs {needed}\n"


def test_a_range_under_optimised_python_is_told_to_go_without() -> None:
    command = [sys.executable, "-O", "-m", "harness", "sweep", "--cfg", "seq_len=range(16,64,16)"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "harness: cannot read 'seq_len=range(16,64,16)': Hydra reads no range(…) under `python -O` and "
        "PYTHONOPTIMIZE: leave them out, or list the values\n"
    )


@pytest.mark.usefixtures("forked_servers")
def test_more_threads_than_cpus_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(["sweep", "--dry-run", "impl=rnn.torch", "seq_len=64", f"threads=1,{usable_cpus() + 1}"])
    said = capsys.readouterr().err
    assert said.startswith(f"harness: threads={usable_cpus() + 1}: only {len(os.sched_getaffinity(0))} CPU")
    assert said.count("\n") == 1
