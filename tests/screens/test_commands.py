"""What the commands print: help, and all that can be told of runs whose numbers the tests choose."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from attention_run import make_run
from cli.known_runs import cases, write
from rows import row
from screens.text_file import (
    options_of_any_python,
    titled,
    without_paths,
    without_trailing_spaces,
    without_versions,
    without_writers,
)
from syrupy import SnapshotAssertion

from harness.cli.commands import COMMANDS, main
from harness.core.model.sweep_axes import Case
from impls.registry import IMPLS

Screen = Callable[[str], str]


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Screen:
    """`screen("predict run …")`: what the command prints into 100 columns, and how it ends."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def carry_out(typed: str) -> str:
        try:
            status = main(shlex.split(typed))
        except SystemExit as ended:
            status = ended.code
        out, err = capsys.readouterr()
        end = f"[exit status {status}]\n" if status else ""
        return without_writers(without_versions(without_paths(without_trailing_spaces(out + err), tmp_path))) + end

    return carry_out


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "baseline"])
def test_every_command_explains_itself(command: str, screen: Screen, snapshot: SnapshotAssertion) -> None:
    assert options_of_any_python(screen(f"{command} --help")) == snapshot


def test_the_list_has_what_theory_claims_of_every_layer(screen: Screen, snapshot: SnapshotAssertion) -> None:
    assert screen("list") == snapshot


def test_one_layer_has_a_page_and_a_family_a_list(screen: Screen, snapshot: SnapshotAssertion) -> None:
    screens = ("list attention.fused", "list encoder.fused", "list attention.flex", "list sdpa.flash", "list conv")
    assert titled({typed: screen(typed) for typed in screens}) == snapshot


def test_the_list_as_json_has_every_layer_and_a_pattern_chooses(screen: Screen) -> None:
    assert [layer["name"] for layer in json.loads(screen("list --json"))] == list(IMPLS)
    own, block = (json.loads(screen(f"list {name}.window --json"))[0] for name in ("attention", "encoder"))
    assert (own["axes"], own["claims"]["memory"]) == ([["reach", "r", 32]], "rhn + nd + rd")
    assert (block["axes"], block["claims"]["memory"]) == ([], "32hn + nd + 32d")
    (fused,) = json.loads(screen("list attention.fused --json"))
    assert fused["claims"]["work"] == IMPLS["attention.fused"].work
    assert {layer["family"] for layer in json.loads(screen("list 'rnn.*' --json"))} == {"rnn"}


def test_help_and_version_are_commands_too(screen: Screen) -> None:
    assert screen("help") == screen("--help")
    assert screen("help status") == screen("status --help")
    assert screen("--version") == screen("version") == "attn-harness x.y.z\n"


def test_a_configuration_is_printed_as_it_is_composed(screen: Screen, snapshot: SnapshotAssertion) -> None:
    assert screen("sweep --cfg 'seq_len=range(1,4)' precision=strict threads=2") == snapshot


def test_a_prediction_has_its_interval_and_how_well_laws_predict(
    screen: Screen, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    write(tmp_path / "run", cases(), off=0.02)
    narrow = [case for case in cases() if (case.d_model, case.num_heads) in ((64, 4), (64, 1))]
    write(tmp_path / "narrow", narrow, off=0.02)
    at = "d_model=256 num_heads=8"
    screens = {
        "not measured, and measured": f"predict run impl=attention.fused seq_len=1024,4096 {at}",
        "all layers": f"predict run seq_len=4096 {at}",
        "far outside": f"predict run impl=rnn.torch seq_len=65536 {at}",
        "one value of the others": "predict narrow seq_len=4096",
    }
    assert titled({title: screen(typed) for title, typed in screens.items()}) == snapshot


def test_a_recommendation_says_how_sure_it_is_and_what_it_leaves_out(
    screen: Screen, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    run = write(tmp_path / "run", cases(), off=0.02)
    failed = row(Case("attention.fused", 4096, 256, 8), "facts", status="oom", reason="can't allocate")
    with (run / "rows" / "host-1.jsonl").open("a") as file:
        file.write(json.dumps({"schema": 2, **failed}) + "\n")
    write(tmp_path / "train", cases(mode="train", dtype="bfloat16", batch_size=2))
    write(tmp_path / "once", [Case("attention.fused", 64, 16, 2), Case("rnn.torch", 64, 16, 1)])
    at = "d_model=256 num_heads=4"
    screens = {
        "below and above the crossing": f"recommend run seq_len=128,2048 {at}",
        "near the crossing": f"recommend run seq_len=700 {at}",
        "not measured": f"recommend run seq_len=3000 {at}",
        "far outside": f"recommend run seq_len=100000 {at}",
        "failed there": "recommend run seq_len=4096 d_model=256 num_heads=8",
        "with little memory": f"recommend run seq_len=128 {at} memory=500KiB",
        "with enough for one length": f"recommend run seq_len=128,2048 {at} memory=1MiB",
        "another setting": f"recommend train seq_len=128 {at} dtype=bfloat16 batch_size=2",
        "one size": "recommend once seq_len=64",
        "beyond one size": "recommend once seq_len=128",
    }
    assert titled({title: screen(typed) for title, typed in screens.items()}) == snapshot


def test_the_status_of_a_run_counts_its_cases_and_names_its_writer(
    screen: Screen, tmp_path: Path, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    idle = screen("status run")
    write(tmp_path / "empty", [])
    (file,) = (run / "rows").iterdir()
    file.write_text("\n".join([*file.read_text().splitlines()[:-4], "torn"]))
    screens = {"idle": idle, "no rows": screen("status empty"), "torn": screen("status run")}
    for title, found in {
        "measuring": ("vm: process 7", True),
        "stopped": ("vm: process 7", False),
        "elsewhere": ("vm: process 7,", None),
    }.items():
        monkeypatch.setattr("harness.cli.stored_runs.holder", lambda run, found=found: found)
        screens[title] = screen("status run")
    assert titled(screens) == snapshot


def test_a_baseline_names_its_file(screen: Screen, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    make_run(tmp_path / "run")
    assert screen("baseline run -o b.json") == snapshot
