"""A run in a notebook."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from cli.known_runs import cases, write
from core.results.test_benchmarks import benchmark
from core.results.test_benchmarks import write as write_benchmarks

import harness
from harness.core.model.errors import UsageError
from harness.extras.notebook.loaded_run import Picture, Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("run")
    return harness.load(write(path, [*cases(), *cases(mode="train")]))


def caption(picture: Picture) -> str:
    return picture.figure.texts[1].get_text()


def named(picture: Picture) -> set[str]:
    """The names at the ends of curves."""
    return {text.get_text() for axes in picture.figure.axes for text in axes.texts}


def test_a_run_has_its_tables(run: Run) -> None:
    assert len(run.table) == len(cases()) * 2
    assert set(run.laws.metric) == {"time", "memory"}
    assert {"slower", "faster", "seq_len_lo"} <= set(run.crossovers.columns)
    assert {"claimed", "measured", "verdict"} <= set(run.claims.columns)
    assert repr(run).endswith(f"{len(cases()) * 2} cases of {', '.join(dict.fromkeys(run.table.impl))}>")
    assert ": 1 case of " in repr(replace(run, lines=run.lines[:1]))


def test_a_picture_shows_itself_and_can_be_saved(run: Run, tmp_path: Path) -> None:
    picture = run.plot.time(mode="train")
    assert isinstance(picture, Picture)
    assert picture._repr_png_().startswith(b"\x89PNG")
    picture.save(tmp_path / "time.svg")
    assert (tmp_path / "time.svg").read_text().startswith("<?xml")
    assert "train" in caption(picture)


def test_layers_without_heads_are_in_the_picture_of_any_number_of_heads(run: Run) -> None:
    assert {"rnn.torch", "attention.fused"} <= named(run.plot.time(mode="forward", num_heads=8))
    assert {axes.get_title() for axes in run.plot.memory(mode="forward", num_heads=8).figure.axes} == {
        f"d = {d}, h = 8" for d in (64, 128, 256)
    }
    with pytest.raises(UsageError, match="nothing was measured there"):
        run.plot.time(num_heads=3)


def test_rows_at_a_size_include_the_layers_without_heads(run: Run) -> None:
    found = run.at(num_heads=8, mode="forward")
    assert {"rnn.torch", "attention.fused"} <= set(found.impl)
    assert set(found.num_heads) == {8}
    assert len(run.at(impl="rnn.torch", num_heads=8, mode="forward")) == len(run.at(impl="rnn.torch", mode="forward"))
    assert run.at(num_heads=3).empty
    with pytest.raises(UsageError, match="no setting heds"):
        run.at(heds=8)


def test_the_overview_is_of_the_fullest_panel_or_of_the_one_asked_for(run: Run) -> None:
    assert run.plot.overview().figure.texts[1].get_text().startswith("d = 256, h = 8; ")
    one = run.plot.overview(mode="train", d_model=64, num_heads=2)
    assert one.figure.texts[1].get_text().startswith("d = 64, h = 2; train")
    assert {"rnn.torch", "attention.fused"} <= named(one)
    assert "train" in caption(one)


def test_a_table_has_plots_too() -> None:
    table = pd.DataFrame({"seq_len": [64, 128, 256], "depth": [193, 385, 769]})
    picture = harness.plots_of(table).depth()
    assert picture.figure.get_suptitle() == "layer runs 769 operations one after another at n = 256"
    assert [axes.get_title(loc="left") for axes in harness.plots_of(table).overview().figure.axes] == [
        "Sequential depth"
    ]


def test_the_speed_up_may_be_over_any_layer(run: Run) -> None:
    titles = {axes.get_title() for axes in run.plot.speedup("attention.fused").figure.axes}
    assert titles == {f"rnn.torch, h = {h}" for h in (2, 4, 8)}


def test_of_several_settings_the_first_is_drawn_and_the_others_are_named(run: Run) -> None:
    texts = [text.get_text() for text in run.plot.memory().figure.texts]
    assert any("there is more: train" in text for text in texts)


@pytest.mark.parametrize(
    ("picture", "setting", "says"),
    [
        ("time", {"mood": "train"}, "no setting mood"),
        ("time", {"mode": "decode"}, "nothing was measured there"),
        ("speedup", {}, "nothing to draw"),
        ("roofline", {}, "harness calibrate"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(run: Run, picture: str, setting: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        getattr(run.plot, picture)(**setting)


def test_laws_of_anybodys_table() -> None:
    n = [64, 128, 256, 512, 1024, 2048]
    [law] = harness.laws_of(pd.DataFrame({"seq_len": n, "time_s": [1e-5 + 2e-6 * size for size in n]})).to_dict(
        "records"
    )
    assert law["metric"] == "time"
    terms = json.loads(law["terms"])
    assert {term: part["value"] for term, part in terms.items()} == pytest.approx({"1": 1e-5, "n": 2e-6})


def test_published_figures_stand_beside_the_measured_ones(tmp_path: Path) -> None:
    found = harness.load(write(tmp_path / "run", cases()))
    assert found.published.empty
    table = {"title": "Time", "quantity": "time_ms", "source": "table 1", "along": "seq_len", "columns": [64, 128]}
    paper = {"name": "theirs", "source": "Somebody 2026", "hardware": "a machine", "setting": "forward"}
    paper |= {"tables": [{**table, "rows": {"rnn.torch": [13, 25]}}], "claims": [], "notes": []}
    found = harness.load(write(tmp_path / "paper", cases(), paper=paper))
    assert found.published.published.tolist() == [13, 25]


def test_a_pytest_benchmark_file_is_read_as_a_run(tmp_path: Path) -> None:
    benchmarks = [benchmark(name=f"test_layer[{n}]", seq_len=n, least=1e-6 * n) for n in (64, 128, 256, 512)]
    found = harness.load(write_benchmarks(tmp_path, *benchmarks))
    assert found.table.time_s.tolist() == [1e-6 * n for n in (64, 128, 256, 512)]
    assert set(found.laws.metric) == {"time"}
    assert found.plot.time()._repr_png_().startswith(b"\x89PNG")


def test_a_directory_that_is_no_run_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run"):
        harness.load(tmp_path)
