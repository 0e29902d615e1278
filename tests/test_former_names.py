"""Names of earlier versions are read wherever users have them: commands, files, rows, tables and baselines."""

import copy
import json
import math
import pickle
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.analysis.published_papers import paper_of
from harness.config import compose
from harness.errors import UsageError
from harness.gate.baseline import parse_case
from harness.measure.output_directory import OutputDirectory
from harness.results.accumulate_rows import RunAccumulator
from harness.results.columns import lines_of_table
from harness.sweep_axes import Case


@pytest.mark.parametrize(
    ("former", "present", "notice"),
    [
        (
            "real_share=0.75,0.5",
            "padding_fraction=0.25,0.5",
            "real_share is called padding_fraction now, which is 1 − ",
        ),
        ("real_share=[1,0.9]", "padding_fraction=[0,0.1]", "real_share is called padding_fraction now"),
        ("source_len=64", "kv_len=64", "source_len is called kv_len now"),
        (
            "together=[{seq_len:512,source_len:32}]",
            "points=[{seq_len:512,kv_len:32}]",
            "together is called points now",
        ),
    ],
)
def test_a_former_key_is_taken_and_reported_in_one_line(
    former: str, present: str, notice: str, capsys: pytest.CaptureFixture
) -> None:
    given = compose([former, "mask=padding"], for_sweep=True)
    said = capsys.readouterr().err
    assert said.startswith(f"harness: {notice}")
    assert said.count("\n") == 1
    wanted = compose([present, "mask=padding"], for_sweep=True)
    assert (given.axes, given.points, given.yaml) == (wanted.axes, wanted.points, wanted.yaml)


def test_sizes_are_taken_by_the_letters_that_every_output_prints(capsys: pytest.CaptureFixture) -> None:
    given = compose(["n=64,128", "d=32", "h=range(1,5)", "b=2"])
    wanted = compose(["seq_len=64,128", "d_model=32", "num_heads=range(1,5)", "batch_size=2"])
    assert given.axes == wanted.axes
    assert compose(["points=[{n:512,b:32}]"], for_sweep=True).points == ({"seq_len": 512, "batch_size": 32},)
    assert capsys.readouterr().err == ""


def test_a_users_own_file_may_have_former_keys(tmp_path: Path) -> None:
    (tmp_path / "preset").mkdir()
    text = "# @package _global_\nimpl: rnn.elman\nreal_share: [0.75, 1.0]\nsource_len: 8\nmask: padding\n"
    (tmp_path / "preset" / "mine.yaml").write_text(text)
    axes = compose(["preset=mine"], tmp_path).axes
    assert (axes["padding_fraction"], axes["kv_len"]) == ((0.25, 0.0), (8,))


def test_a_configuration_does_not_store_former_keys() -> None:
    stored = compose([]).yaml
    assert not any(name in stored for name in ("real_share", "source_len", "together"))


OLD_CASE = {"impl": "rnn.elman", "seq_len": 8, "d_model": 4, "num_heads": 1, "real_share": 0.75, "source_len": 16}
CASE = Case("rnn.elman", 8, 4, 1, padding_fraction=0.25, kv_len=16)


def test_rows_of_an_earlier_version_are_read() -> None:
    row = {"family": "rnn", "round": 1, "case": OLD_CASE}
    run = RunAccumulator()
    assert run.add({**row, "purpose": "time", "status": "ok", "samples_s": [0.5], "wall_s": 1.0, "pulse_s": 0.25})
    assert run.add({**row, "purpose": "verify", "status": "wrong", "reason": "it is not finite"})
    assert list(run.cases) == [tuple(CASE.as_dict().values())]
    assert run.failures == {0: ("incorrect", "it is not finite")}
    assert run.records[3] == 0.25


def test_a_table_of_an_earlier_version_is_read() -> None:
    times = {"time_s": [1e-3, math.nan], "status": ["ok", "wrong"], "humps": [2, math.nan], "hump_cause": ["a", None]}
    table = pd.DataFrame({"seq_len": [8, 16], "real_share": [0.75, 1.0], "source_len": [0, 0], **times})
    first, second = lines_of_table(table)
    assert (first.padding_fraction, first.bimodal, first.bimodal_cause) == (0.25, True, "a")
    assert (second.padding_fraction, second.bimodal, second.status) == (0.0, None, "incorrect")


def test_a_baseline_of_an_earlier_version_is_read() -> None:
    present = {**CASE.as_dict()}
    old = {**present, "real_share": 0.75, "source_len": 16}
    del old["padding_fraction"], old["kv_len"]
    assert parse_case(" ".join(f"{name}={value}" for name, value in old.items())) == CASE


def test_a_run_of_an_earlier_version_is_continued(tmp_path: Path) -> None:
    config = compose(["mask=padding", "padding_fraction=0.25", f"out={tmp_path}"], for_sweep=True)
    former = config.yaml.replace("padding_fraction: 0.25", "real_share: 0.75").replace("kv_len:", "source_len:")
    (tmp_path / "rows").mkdir()
    assert "num_kv_heads: 0\n" in former
    older = former.replace("points:", "together:").replace("num_kv_heads: 0\n", "")  # an axis added since
    (tmp_path / "config.yaml").write_text(older)
    (tmp_path / "machine.json").write_text(json.dumps({}))
    assert OutputDirectory.of(replace(config, out=tmp_path)).continues


@pytest.mark.parametrize("value", ["range(0.1,0.9,0.2)", "${mode}", "null"])
def test_a_former_value_without_a_complement_is_refused_with_the_present_name(value: str) -> None:
    with pytest.raises(UsageError, match=r"which is 1 − real_share: give padding_fraction=…"):
        compose([f"real_share={value}", "mask=padding"])


@pytest.mark.parametrize("case", [["real_share"], "real_share", 5, {**OLD_CASE, "real_share": 10**400}])
def test_a_damaged_row_with_former_names_is_left_out(case: object) -> None:
    row = {"family": "rnn", "round": 1, "case": case, "purpose": "verify", "status": "wrong", "reason": "no"}
    assert not RunAccumulator().add(row)


def test_a_baseline_with_a_former_column_in_place_of_an_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="'humps=2' is not of the form axis=value"):
        parse_case("impl=rnn.elman seq_len=8 d_model=4 num_heads=1 humps=2")


def test_a_former_column_may_have_missing_values_of_pandas() -> None:
    table = pd.DataFrame({"seq_len": [8], "time_s": [1e-3], "humps": [1]}).convert_dtypes()
    table.loc[0, "humps"] = pd.NA
    (line,) = lines_of_table(table)
    assert line.bimodal is None


@pytest.mark.parametrize(
    ("former", "present"),
    [("1e-9", 0.999999999), ("0.333333333", 0.666666667), ("1.0", 0.0)],
)
def test_a_complement_keeps_its_digits(former: str, present: float) -> None:
    assert compose([f"real_share={former}", "mask=padding"]).axes["padding_fraction"] == (present,)


@pytest.mark.parametrize(("former", "present"), [("-0.5", "1.5"), ("1.5", "-0.5")])
def test_a_complement_out_of_range_is_refused(former: str, present: str) -> None:
    with pytest.raises(UsageError, match=f"padding_fraction={present}"):
        compose([f"real_share={former}", "mask=padding"])


def test_a_layer_may_ask_a_case_for_its_former_axes() -> None:
    assert (CASE.source_len, CASE.real_share) == (CASE.kv_len, 1 - CASE.padding_fraction)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'humps'"):
        CASE.humps  # type: ignore[attr-defined]  # noqa: B018
    assert copy.deepcopy(CASE) == pickle.loads(pickle.dumps(CASE)) == CASE


def test_settings_that_name_axes_take_former_and_short_names() -> None:
    launcher = compose(
        ["launcher=processes", "threads=1", "launcher.apart=[mode,real_share,m]"], for_sweep=True
    ).launcher
    assert launcher.apart == ["mode", "padding_fraction", "kv_len"]
    assert compose(["grow=n"], for_sweep=True).grow == "seq_len"


def test_a_paper_of_an_earlier_version_is_read() -> None:
    table = {"quantity": "time_ms", "source": "s", "along": "real_share", "columns": [0.75, 1.0]}
    table |= {"at": {"source_len": 8}, "rows": {"rnn.elman": [1.0, "wrong"]}}
    read = paper_of({"paper": {"name": "test", "at": {"n": 64}, "tables": [table]}})
    assert read is not None
    assert [dict(figure.at) for figure in read.figures] == [
        {"seq_len": (64,), "kv_len": (8,), "padding_fraction": (0.25,)},
        {"seq_len": (64,), "kv_len": (8,), "padding_fraction": (0.0,)},
    ]
    assert [figure.ended for figure in read.figures] == ["", "incorrect"]
