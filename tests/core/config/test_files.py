"""An error in a user's file is one line that names the file, the key and its valid values."""

from pathlib import Path

import pytest
from screens.text_file import titled
from syrupy import SnapshotAssertion

from harness.core.config import compose
from harness.core.model.errors import UsageError

GLOBAL = "# @package _global_\n"
SIZES = GLOBAL + "seq_len: 8\nd_model: 16\nnum_heads: 2\n"


def own(directory: Path, **files: str) -> Path:
    """`shape__mine="…"` is the file shape/mine.yaml."""
    for name, text in files.items():
        path = directory / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def refused(directory: Path, *overrides: str) -> str:
    with pytest.raises(UsageError) as caught:
        compose(overrides, directory, for_sweep=True)
    said = str(caught.value)
    assert "\n" not in said
    return said.removeprefix(f"{directory}/")


def test_an_error_is_told_with_its_file_its_line_or_key_and_what_it_takes(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    texts = {
        "type": GLOBAL + "d_model: many",
        "name": GLOBAL + "device: [cpu, cuta]",
        "key": GLOBAL + "d_modell: 16",
        "nested": GLOBAL + "precision: {rounds: 3}",
        "number": GLOBAL + "precision: {target: wide}",
        "range": GLOBAL + "precision: {target: -1}",
        "bytes": GLOBAL + "memory_limit: 3",
        "launcher": GLOBAL + "launcher: {time: 1}",
        "points": GLOBAL + "points: [{seq_ln: 8}]",
        "package": "d_model: 16",
        "empty": "",
        "open": GLOBAL + "d_model: [3\nnum_heads: 2",
        "tag": GLOBAL + "d_model: !own 3",
        "twice": SIZES + "d_model: 32\n",
        "list": "- 1\n- 2\n",
        "unnamed": SIZES + "1: 2\n",
        "lacking": GLOBAL + "d_model: 16\nnum_heads: 2\n",
    }
    own(tmp_path, **{f"shape__{name}": text for name, text in texts.items()})
    own(tmp_path, shape__latin="", precision__typo="tagret: 0.1", precision__lost="defaults: [narow]")
    (tmp_path / "shape" / "latin.yaml").write_bytes(b"# gr\xf6\xdfe\n")
    said = {f"shape={name}": refused(tmp_path, f"shape={name}") for name in (*texts, "latin")}
    said |= {f"precision={name}": refused(tmp_path, f"precision={name}") for name in ("typo", "lost")}
    assert titled(said) == snapshot


def test_of_several_chosen_files_each_is_named_with_the_value(tmp_path: Path) -> None:
    own(
        tmp_path,
        shape__mine=SIZES,
        preset__mine=GLOBAL + "impl: rnn.elman\nd_model: many",
        preset__other="d_model: many",
    )
    said = refused(tmp_path, "shape=mine", "preset=mine")
    assert sorted(said.partition(": ")[0].split(f", {tmp_path}/")) == ["preset/mine.yaml", "shape/mine.yaml"]
    assert ": d_model=many: it takes" in said


def test_of_a_group_the_settings_are_the_groups(tmp_path: Path) -> None:
    own(tmp_path, precision__mine="defaults: [quick]\nmax_rounds: 7\n")
    assert compose(["precision=mine"], tmp_path).precision.max_rounds == 7


def test_files_that_a_file_chooses_are_looked_at_too(tmp_path: Path) -> None:
    chooses = GLOBAL + "defaults: [{override /precision: wide}]\n" + SIZES
    own(tmp_path, shape__mine=chooses, precision__wide="target: wide")
    assert f"{tmp_path}/precision/wide.yaml" in refused(tmp_path, "shape=mine").partition(": ")[0]
    assert compose(["shape=mine", "precision=quick"], tmp_path).axes["seq_len"] == (8,)


def test_the_sizes_of_a_paper_are_looked_at_at_the_scale_that_is_chosen(tmp_path: Path) -> None:
    paper = GLOBAL + "defaults: [_self_, {mine@_global_: full}]\nimpl: rnn.elman\npaper: {name: mine}\n"
    own(tmp_path, paper__mine=paper, paper__mine__full=GLOBAL + "seq_len: x", paper__mine__cpu=GLOBAL + "seq_len: 8")
    assert f"{tmp_path}/paper/mine/full.yaml: seq_len=x: " in refused(tmp_path, "paper=mine")
    assert compose(["paper=mine", "scale=cpu"], tmp_path, for_sweep=True).axes["seq_len"] == (8,)


def test_what_nobody_has_chosen_or_the_command_line_says_is_left_alone(tmp_path: Path) -> None:
    own(tmp_path, shape__mine=SIZES.replace("16", "many"), shape__broken="a: [", notes__todo="a: [")
    assert compose(["shape=mine", "d_model=32"], tmp_path).axes["d_model"] == (32,)


def test_a_directory_that_is_no_group_offers_nothing(tmp_path: Path) -> None:
    own(tmp_path, shaep__mine=SIZES, mode__mine=SIZES)
    assert refused(tmp_path, "shaep=mine") == "unknown key 'shaep'; did you mean 'shape'?"
    assert compose(["mode=train"], tmp_path).axes["mode"] == ("train",)
