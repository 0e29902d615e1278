"""Layers of the harness as problem files and definitions, which are read back as the same layers."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from attention_run import make_run
from rows import PRECISION, measured

from harness.cli.commands import main
from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.stored_run import StoredRun
from harness.core.results.summarise import summarise
from harness.core.run.executor import Executor
from harness.extras.export import script
from harness.extras.export.formats import export

FACTS = ("flops", "depth", "weights_bytes", "inputs_bytes", "peak_bytes", "saved_bytes")
OWN = f"{Path(__file__).parent / 'files' / 'mean_of_window.py'}:MeanOfWindow"
FUSED = Case("attention.fused", 32, 16, 2)
SDPA = replace(FUSED, impl="sdpa.fused")
Write = Callable[..., tuple[Path, list[str]]]


def lines_of(cases: Sequence[Case], weights_bytes: int | None) -> list[CaseResult]:
    rows = chain.from_iterable(measured(case, 1e-3, 100) for case in cases)
    return [replace(line, weights_bytes=weights_bytes) for line in summarise(rows, PRECISION)]


@pytest.fixture
def write(tmp_path: Path, runner: Executor, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the case that words describe, of a run of some cases: the file, and what is said about it."""
    monkeypatch.setattr(script, "short_executor", lambda: nullcontext(runner))

    def written(*cases: Case, words: str = "", ending: str = "py", weights: int | None = 0) -> tuple[Path, list[str]]:
        name = "kernelbench" if ending == "py" else "flashinfer-definition"
        stored = StoredRun(Path("run"), lines_of(cases, weights), [], {}, {})
        content, number, notices = export(stored, name, [words] if words else ())
        assert number == 1
        file = tmp_path / f"written.{ending}"
        file.write_bytes(content)
        return file, notices

    return written


def facts(runner: Executor, case: Case) -> dict[str, int]:
    outcome = runner.run("facts", case)
    assert outcome.ok, outcome.reason
    return {name: outcome.values[name] for name in FACTS}


SIZES = [
    {"seq_len": 16},
    {"seq_len": 48},
    {"seq_len": 64, "batch_size": 3},
    {"d_model": 32},
    {"seq_len": 40, "d_model": 8},
]
SLOW = [
    SDPA,
    replace(FUSED, mask="causal"),
    Case("rnn.lstm.torch", 32, 16, 1),
    Case("rnn.linear_scan", 32, 16, 1),
    replace(FUSED, impl="attention.gqa", num_kv_heads=1),
    replace(FUSED, impl="attention.linear.chunked", mask="causal", options="chunk=16"),
    replace(FUSED, impl="linear.ssd.recurrent", options="state=8"),
    Case(OWN, 32, 16, 1, options="window=8"),
]


@pytest.mark.parametrize(
    "case",
    [Case("conv.conv1d", 32, 16, 1), *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW)],
    ids=lambda case: case.impl.rpartition("/")[2],
)
def test_a_written_layer_has_the_same_facts_at_five_sizes(case: Case, write: Write, runner: Executor) -> None:
    file, _ = write(case)
    for sizes in SIZES:
        at = replace(case, mode="train", **sizes)
        read = replace(at, impl=f"problem-file:{file}", mask="none", num_kv_heads=0)
        assert facts(runner, read) == facts(runner, at)


def test_an_own_axis_of_the_layer_is_one_of_the_file(write: Write, runner: Executor) -> None:
    case = Case(OWN, 32, 16, 1)
    file, _ = write(case)
    assert "\nwindow = 4\n" in file.read_text()
    wide = replace(case, options="window=9")
    depth = facts(runner, replace(wide, impl=f"problem-file:{file}"))["depth"]
    assert depth == facts(runner, wide)["depth"] > facts(runner, case)["depth"]
    assert compose([f"impl={file}", "layer.window=2,3"], for_sweep=True).axes["options"] == ("window=2", "window=3")


@pytest.mark.parametrize("case", [replace(SDPA, mask="causal"), replace(SDPA, dtype="bfloat16")], ids=str)
def test_a_written_definition_has_the_same_facts(case: Case, write: Write, runner: Executor) -> None:
    file, _ = write(case, ending="json")
    read = replace(case, impl=f"problem-file:{file}", d_model=1, num_heads=1, mask="none")
    for sizes in [*SIZES[:3], {"seq_len": 40}, {"batch_size": 2}]:
        assert facts(runner, replace(read, **sizes)) == facts(runner, replace(case, **sizes))


def test_a_definition_has_the_width_as_a_constant(write: Write) -> None:
    definition = json.loads(write(replace(SDPA, mask="causal"), ending="json")[0].read_text())
    assert (definition["name"], definition["op_type"]) == ("FusedSdpa_h2_d16_causal", "sdpa")
    assert definition["axes"]["input_width"] == {"type": "const", "value": 48}
    assert definition["inputs"] == {"x": {"shape": ["batch_size", "seq_len", "input_width"], "dtype": "float32"}}
    assert definition["outputs"]["y"]["shape"] == ["batch_size", "seq_len", "d_model"]


# As KernelBench runs a problem, twice from one seed, and the layer itself from that seed.
AS_KERNELBENCH = """
import sys, torch
problem = {}
exec(open(sys.argv[1]).read(), problem)
torch.manual_seed(42)
inputs = problem["get_inputs"]()
outputs = []
init_inputs = problem["get_init_inputs"]()
for build, arguments in ((problem["Model"], init_inputs), (problem["layer_module"].MeanOfWindow, [16])):
    torch.manual_seed(42)
    with torch.no_grad():
        outputs.append(build(*arguments).eval()(*inputs))
print(list(inputs[0].shape), torch.equal(*outputs), "harness" in sys.modules)
"""


def test_a_written_problem_needs_no_harness(write: Write, tmp_path: Path) -> None:
    file, notices = write(Case(OWN, 32, 16, 1, batch_size=2))
    place = OWN.rpartition(":")[0]
    assert notices == [f"the file imports {place}, which must be found where the file is used"]
    command = [sys.executable, "-c", AS_KERNELBENCH, str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[2, 32, 16] True False\n", "")


def test_the_words_of_a_case_choose_it(write: Write) -> None:
    others = FUSED, replace(FUSED, mode="train"), replace(FUSED, seq_len=64), SDPA
    assert "seq_len = 64" in write(*others, words="attention.fused n=64")[0].read_text()
    assert "seq_len = 32" in write(*others, words="attention.fused n=32")[0].read_text()
    with pytest.raises(UsageError, match=r"has 2 cases that 'mode=forward' describes: choose one, as by"):
        write(*others[::2], words="mode=forward")
    with pytest.raises(UsageError, match=r"no case of \S* is 'attention\.fussed'; did you mean 'attention\.fused'"):
        write(*others, words="attention.fussed")


@pytest.mark.parametrize(
    ("case", "ending", "weights", "said"),
    [
        (replace(FUSED, mode="decode", mask="causal"), "py", 0, "a problem has no mode=decode"),
        (replace(FUSED, impl="torch.nn.functional:scaled_dot_product_attention"), "py", 0, "other inputs than one x"),
        (replace(FUSED, impl="sdpa.varlen", lengths="zipf", mask="padding", batch_size=2), "py", 0, "other inputs"),
        (replace(FUSED, impl="decoder.fused"), "py", 0, "it takes other inputs than one x"),
        (replace(FUSED, kv_len=8), "py", 0, "it takes other inputs than one x"),
        (replace(FUSED, impl="attention.latent", mask="causal"), "py", 0, "its mask is a tensor, which no problem has"),
        (replace(FUSED, mask="padding", padding_fraction=0.5), "py", 0, "has no padded batch"),
        (replace(FUSED, impl=f"problem-file:{Path(OWN).parent / 'block.py'}"), "py", 0, "other inputs than one x"),
        (FUSED, "json", 4096, "attention.fused has weights, and a definition has none: give --format kernelbench"),
        (FUSED, "json", None, "the run does not know whether attention.fused has weights"),
    ],
)
def test_what_no_problem_holds_is_refused(case: Case, ending: str, weights: int, said: str, write: Write) -> None:
    with pytest.raises(UsageError, match=said):
        write(case, ending=ending, weights=weights)


def test_a_layer_that_prepares_is_written_with_a_notice(write: Write, runner: Executor) -> None:
    file, notices = write(replace(FUSED, impl="encoder.naive", mask="causal"))
    assert notices == ["every call of the file includes `prepare`, and no call of the run does: their costs differ"]
    assert "self.layer(x, **self.layer.prepare(x, is_causal=True))" in file.read_text()
    assert runner.run("verify", replace(FUSED, impl=f"problem-file:{file}")).ok


def test_the_command_writes_the_file_of_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = str(make_run(tmp_path / "run")), tmp_path / "problem.py"
    assert main(["export", run, "--format", "kernelbench", "--case", "attention.fused n=64", "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 1 case, kernelbench\n"
    assert "import impls.attention.fused as layer_module" in out.read_text()
