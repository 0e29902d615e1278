"""An error in a user's file is one line that names the file, the key and its valid values."""

from pathlib import Path

import pytest

from harness.config import compose
from harness.errors import UsageError

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GLOBAL + "d_model: many", "d_model=many: it takes whole numbers from 1 to 1000000"),
        (GLOBAL + "device: [cpu, cuta]", "unknown device 'cuta'; did you mean 'cuda'?"),
        (GLOBAL + "d_modell: 16", "unknown key 'd_modell'; did you mean 'd_model'?"),
        (GLOBAL + "precision: {rounds: 3}", "unknown key 'precision.rounds'; did you mean 'precision.min_rounds'?"),
        (GLOBAL + "precision: {target: wide}", "precision.target=wide: it takes a number"),
        (GLOBAL + "precision: {target: -1}", "precision.target=-1: it takes a number above 0"),
        (GLOBAL + "memory_limit: 3", "memory_limit=3: give bytes, or a number with KiB"),
        (GLOBAL + "launcher: {time: 1}", "launcher.time=1: it takes a whole number from 5 on"),
        (GLOBAL + "together: [{seq_ln: 8}]", "points: seq_ln; did you mean 'seq_len'?"),
        ("d_model: 16", "its settings would be those of 'shape', which has none: begin it with `# @package _global_`"),
        ("", "its settings would be those of 'shape', which has none: begin it with `# @package _global_`"),
    ],
)
def test_a_setting_that_cannot_be_is_told_with_its_file(text: str, said: str, tmp_path: Path) -> None:
    assert refused(own(tmp_path, shape__mine=text), "shape=mine").startswith(f"shape/mine.yaml: {said}")


def test_of_two_files_the_one_that_has_the_value_is_named(tmp_path: Path) -> None:
    own(
        tmp_path,
        shape__mine=SIZES,
        preset__mine=GLOBAL + "impl: rnn.elman\nd_model: many",
        preset__other="d_model: many",
    )
    assert refused(tmp_path, "shape=mine", "preset=mine").startswith("preset/mine.yaml: d_model=many: it takes whole")


def test_a_file_that_cannot_be_read_is_told_with_the_line(tmp_path: Path) -> None:
    own(tmp_path, shape__open=GLOBAL + "d_model: [3\nnum_heads: 2", shape__twice=SIZES + "d_model: 32\n")
    own(tmp_path, shape__list="- 1\n- 2\n", shape__latin="", shape__number=SIZES + "1: 2\n")
    (tmp_path / "shape" / "latin.yaml").write_bytes(b"# gr\xf6\xdfe\n")
    assert refused(tmp_path, "shape=open") == "shape/open.yaml, line 3 is no YAML: expected ',' or ']', but got ':'"
    assert refused(tmp_path, "shape=twice") == "shape/twice.yaml, line 5 is no YAML: found duplicate key d_model"
    assert refused(tmp_path, "shape=list") == "shape/list.yaml is a list: it takes settings, each `key: value`"
    assert refused(tmp_path, "shape=number") == "shape/number.yaml: unknown key 1: a setting has a name"
    assert refused(tmp_path, "shape=latin").startswith("shape/latin.yaml is not UTF-8 (")


def test_of_a_group_the_settings_are_the_groups(tmp_path: Path) -> None:
    own(tmp_path, precision__typo="tagret: 0.1", precision__mine="target: 0.1\nmax_rounds: 7")
    said = "precision/typo.yaml: unknown key 'precision.tagret'; did you mean 'precision.target'?"
    assert refused(tmp_path, "precision=typo") == said
    own(tmp_path, precision__mine="defaults: [quick]\nmax_rounds: 7\n")
    assert compose(["precision=mine"], tmp_path).precision.max_rounds == 7


def test_files_that_a_file_chooses_are_looked_at_too(tmp_path: Path) -> None:
    chooses = GLOBAL + "defaults: [{override /precision: wide}]\n" + SIZES
    own(tmp_path, shape__mine=chooses, precision__wide="target: wide", precision__lost="defaults: [narow]")
    assert refused(tmp_path, "shape=mine") == "precision/wide.yaml: precision.target=wide: it takes a number"
    assert compose(["shape=mine", "precision=quick"], tmp_path).axes["seq_len"] == (8,)
    assert refused(tmp_path, "precision=lost").startswith(
        "precision/lost.yaml: defaults: there is no precision/narow.yaml; known: lost, quick, standard, strict, wide"
    )


def test_the_sizes_of_a_paper_are_looked_at_at_the_scale_that_is_chosen(tmp_path: Path) -> None:
    paper = GLOBAL + "defaults: [_self_, {mine@_global_: full}]\nimpl: rnn.elman\npaper: {name: mine}\n"
    own(tmp_path, paper__mine=paper, paper__mine__full=GLOBAL + "seq_len: x", paper__mine__cpu=GLOBAL + "seq_len: 8")
    assert refused(tmp_path, "paper=mine").startswith("paper/mine/full.yaml: seq_len=x: it takes whole numbers")
    assert compose(["paper=mine", "scale=cpu"], tmp_path, for_sweep=True).axes["seq_len"] == (8,)


def test_what_nobody_has_chosen_or_the_command_line_says_is_left_alone(tmp_path: Path) -> None:
    own(tmp_path, shape__mine=SIZES.replace("16", "many"), shape__broken="a: [", notes__todo="a: [")
    assert compose(["shape=mine", "d_model=32"], tmp_path).axes["d_model"] == (32,)


def test_a_directory_that_is_no_group_offers_nothing(tmp_path: Path) -> None:
    own(tmp_path, shaep__mine=SIZES, mode__mine=SIZES)
    assert refused(tmp_path, "shaep=mine") == "unknown key 'shaep'; did you mean 'shape'?"
    assert compose(["mode=train"], tmp_path).axes["mode"] == ("train",)


def test_a_size_that_no_file_has_is_asked_for(tmp_path: Path) -> None:
    own(tmp_path, shape__mine=GLOBAL + "d_model: 16\nnum_heads: 2\n")
    assert refused(tmp_path, "shape=mine") == "seq_len has no value: no file that is chosen says one; give seq_len=…"
