"""A baseline's file: the same text for the same run, read back as it was written, and one line for any damage."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from study.check.baselines import MACHINE, usual, usual_baseline
from study.laws.measured import cross, over_sources

from harness.core.model.errors import UsageError
from harness.core.results.columns import COUNTS, CaseResult
from harness.study.check.baseline import (
    Baseline,
    baseline_of,
    baseline_text,
    parse_case,
    parse_finding_id,
    read_baseline,
    write_baseline,
)
from harness.study.check.check import judge_baseline


@pytest.fixture(scope="module")
def kept() -> Baseline:
    return usual_baseline()


@pytest.fixture(scope="module")
def text(kept: Baseline) -> str:
    return baseline_text(kept)


def test_an_editor_may_have_written_a_byte_order_mark(tmp_path: Path, kept: Baseline, text: str) -> None:
    (tmp_path / "baseline.json").write_text(f"\ufeff{text}", encoding="utf-8")
    assert read_baseline(tmp_path / "baseline.json") == replace(kept, times_s={})


def test_a_time_faster_than_the_machine_is_in_no_baseline(kept: Baseline) -> None:
    speeds = {"peak_flops_per_s": {"float32": 1.0}, "bandwidth": {"bandwidth_bytes_per_s": 1e12}}
    slow = {"calibration": {"noise_floor": 0.1, "device": "cpu", "threads": usual()[0].threads, **speeds}}
    lines = usual()
    assert kept.times_s.keys() == {line.case for line in lines}
    suspect = baseline_of(lines, {**MACHINE, **slow}, seed=3, harness="0.1.0")
    assert suspect.times_s == {}
    assert not any(law.determined for name, law in suspect.laws.items() if name.what == "time")
    working_on = [replace(line, threads_after=0.9) for line in lines[:1]]
    assert baseline_of(working_on, MACHINE, seed=3, harness="0.1.0").times_s == {}


def test_what_is_read_is_what_was_written(kept: Baseline, text: str, tmp_path: Path) -> None:
    write_baseline(kept, tmp_path / "b.json")
    found = read_baseline(tmp_path / "b.json")
    assert found == replace(kept, times_s={})  # information only
    assert baseline_text(replace(found, times_s=kept.times_s)) == text


def test_a_remainder_below_zero_is_read_back(kept: Baseline, tmp_path: Path) -> None:
    cases = {case: facts.model_copy(update={"transient_bytes": -8}) for case, facts in kept.cases.items()}
    write_baseline(replace(kept, cases=cases), tmp_path / "b.json")
    assert read_baseline(tmp_path / "b.json").cases == cases


def kept_of(lines: list[CaseResult]) -> Baseline:
    return baseline_of(lines, MACHINE, seed=3, harness="0.1.0")


def test_cost_models_in_m_are_read_back_and_judged(tmp_path: Path) -> None:
    was = kept_of(over_sources(cross, "their:Layer", work="4nd² + 4md² + 4nmd"))
    write_baseline(was, tmp_path / "b.json")
    assert read_baseline(tmp_path / "b.json") == replace(was, times_s={})
    now = kept_of(over_sources(lambda n, m, d: cross(n, m, d) + 4 * n * m * d, "their:Layer"))
    found = {one.quantity: one for one in judge_baseline(was, now, was.cases, timed=False)}
    worse = found["exponent of flops in m"]
    assert worse.verdict.outcome == "regression"
    assert worse.subject == "their:Layer m=m"
    # At n = 2048, m = 512, d = 256, nd² : md² : nmd = 4 : 1 : 8. Those with m are 9 of 13 parts, then 17 of 21.
    assert (worse.was, worse.now) == ("0.69", "0.81")


def test_two_runs_differ_in_what_the_clock_says_and_in_nothing_else(kept: Baseline, text: str) -> None:
    slower = replace(
        kept,
        times_s={case: 1.3 * time_s for case, time_s in kept.times_s.items()},
        laws={
            name: law.model_copy(update={"law": "other"}) if name.what == "time" else law
            for name, law in kept.laws.items()
        },
    )
    before, after = json.loads(text), json.loads(baseline_text(slower))
    assert before.pop("timed") != after.pop("timed")
    assert before == after


def test_the_order_of_a_runs_rows_does_not_matter(kept: Baseline, text: str) -> None:
    turned = {name: dict(reversed(getattr(kept, name).items())) for name in ("cases", "laws", "claims", "times_s")}
    assert baseline_text(replace(kept, **turned)) == text


def test_it_reads_well_in_a_diff(text: str) -> None:
    lines = text.splitlines()
    assert all(line.count('": ') <= 1 for line in lines)
    sizes = [int(line.split("seq_len=")[1].split()[0]) for line in lines if "impl=attention.fused seq_len" in line]
    assert sizes[: len(sizes) // 2] == sorted(sizes[: len(sizes) // 2])  # by number: 64 before 128
    assert list(next(iter(json.loads(text)["cases"].values()))) == ["status", "reason", *COUNTS, "backend"]
    assert text.endswith("}\n")


def test_times_are_rounded_and_said_to_be_information(text: str) -> None:
    timed = json.loads(text)["timed"]
    assert "no time ever" in timed["note"]
    assert all(float(f"{time_s:.3g}") == time_s for time_s in timed["times_s"].values())


Edit = Callable[[dict[str, Any]], Any]


def of_case(held: dict[str, Any]) -> dict[str, Any]:
    return next(iter(held["cases"].values()))


def of_law(held: dict[str, Any]) -> dict[str, Any]:
    return next(iter(held["laws"].values()))


def rename(members: dict[str, Any], old: str, new: str) -> None:
    key = next(iter(members))
    members[key.replace(old, new)] = members.pop(key)


EDITS: dict[str, tuple[Edit, str]] = {
    "another schema": (lambda held: held.update(schema=2), "its schema is 2, this harness reads 1"),
    "a schema that is a text": (lambda held: held.update(schema="1"), "its schema is '1', this harness reads 1"),
    "a schema that is true": (lambda held: held.update(schema=True), "its schema is True"),
    "no schema": (lambda held: held.pop("schema"), "it has no schema"),
    "a number that is a text": (
        lambda held: of_case(held).update(flops="12"),
        "flops is the text '12', not a valid",
    ),
    "a count with a comma": (lambda held: of_case(held).update(ops=1.5), "ops is 1.5, not a valid integer"),
    "a negative count": (lambda held: of_case(held).update(depth=-1), "depth is -1"),
    "a flag for a count": (lambda held: of_case(held).update(depth=True), "depth is true"),
    "a fact that is none": (
        lambda held: of_case(held).update(flopz=1),
        "unknown 'flopz'; did you mean 'flops'?",
    ),
    "a fact that is missing": (lambda held: of_case(held).pop("peak_bytes"), "peak_bytes is missing"),
    "an unknown status": (
        lambda held: of_case(held).update(status="okay"),
        "status: unknown 'okay'; did you mean",
    ),
    "a case that is a list": (lambda held: held["cases"].update({next(iter(held["cases"])): []}), "is a list"),
    "a case of no size": (lambda held: rename(held["cases"], "seq_len=64", "seq_len=0"), "seq_len=0"),
    "a size that is a word": (lambda held: rename(held["cases"], "seq_len=64", "seq_len=many"), "names nothing"),
    "an axis twice": (lambda held: rename(held["cases"], "d_model=128", "d_model=128 d_model=128"), "names nothing"),
    "an unknown axis": (lambda held: rename(held["cases"], "d_model=", "width="), "names nothing"),
    "an unknown mode": (lambda held: rename(held["cases"], "mode=forward", "mode=backwards"), "unknown mode"),
    "a key that is nothing": (lambda held: rename(held["cases"], "impl=", ""), "does not begin with impl="),
    "no case": (lambda held: held.update(cases={}), "it names no case"),
    "cases as a list": (lambda held: held.update(cases=[]), "cases is a list"),
    "an exponent that is a text": (lambda held: of_law(held).update(exponent_n="1"), "exponent_n is the text '1'"),
    "an interval beside its exponent": (lambda held: of_law(held).update(exponent_n=9.0), "between its ends"),
    "a law of nothing known": (lambda held: rename(held["laws"], "of=memory", "of=beauty"), "a law is of one of"),
    "a law of time among the exact": (
        lambda held: rename(held["laws"], "of=memory", "of=time"),
        "`timed` must hold everything about time",
    ),
    "a law of no case": (lambda held: rename(held["laws"], "attention.", "detention."), "of no case that it names"),
    "a verdict that is none": (
        lambda held: next(iter(held["claims"].values())).update(verdict="true"),
        "verdict: unknown 'true'; known: confirmed, ",
    ),
    "a seed beyond all": (lambda held: held.update(seed=2**64), "seed is"),
    "a count beyond all": (lambda held: of_case(held).update(flops=10**400), "flops is 1000"),
    "a count of 64 bits": (lambda held: of_case(held).update(peak_bytes=2**63), "peak_bytes is 9223372036854775808"),
    "a remainder beyond all": (
        lambda held: of_case(held).update(transient_bytes=-(10**400)),
        "transient_bytes is -1000",
    ),
    "an error beyond all": (lambda held: of_case(held).update(output_error=10**400), "output_error is 1000"),
    "a negative error": (lambda held: of_case(held).update(output_error=-1e-3), "output_error is -0.001"),
    "an exponent beyond all": (lambda held: of_law(held).update(exponent_n=10**400), "exponent_n is 1000"),
    "counts that contradict each other": (
        lambda held: of_case(held).update(flops=3, flops_full=2),
        "its flops is more than its flops_full",
    ),
    "a number of cases that is none": (lambda held: of_law(held).update(cases=-1), "cases is -1"),
    "more than belongs there": (lambda held: held.update(extra=1), "unknown 'extra'; known: "),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_that_makes_no_sense_is_named(edit: str, text: str, tmp_path: Path) -> None:
    change, message = EDITS[edit]
    held = json.loads(text)
    change(held)
    refuse(tmp_path, json.dumps(held).encode(), message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"{", "line 1 is not JSON, or the file is cut off"),
        (b"\xff\xfe{}", "it is no text"),
        (b"[]", "it has no schema"),
        (b"null", "it has no schema"),
        (b'{"schema": 1, "schema": 1}', "'schema' occurs twice"),
        (b'{"schema": NaN}', "NaN is no number"),
        (b'{"schema": ' + b"1" * 10_000 + b"}", "not JSON that anybody wrote"),
        (b"[" * 200_000, "not JSON"),
    ],
)
def test_what_is_no_baseline_at_all_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    refuse(tmp_path, content, message)


def test_a_file_that_is_cut_off_anywhere_is_named(text: str, tmp_path: Path) -> None:
    for share in (0.1, 0.5, 0.9, 0.999):
        refuse(tmp_path, text[: int(share * len(text))].encode(), "cut off")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_baseline(tmp_path / "absent.json")


def refuse(directory: Path, content: bytes, message: str) -> None:
    path = directory / "b.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_baseline(path)
    said = str(refused.value)
    assert message in said
    assert "b.json" in said
    assert "\n" not in said
    assert len(said) < 700


def test_it_takes_the_place_of_the_former_at_once(
    kept: Baseline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.json"
    path.write_text("former")
    link = tmp_path / "link.json"
    link.symlink_to("b.json")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(UsageError, match="No space left"):
            write_baseline(kept, link)
    assert path.read_text() == "former"
    write_baseline(kept, link)
    assert link.is_symlink()
    assert path.read_text() == baseline_text(kept)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.json", "link.json"]


def test_a_layer_in_a_file_of_somebodys_own_is_named_by_its_path(kept: Baseline, tmp_path: Path) -> None:
    cases = {replace(case, impl="/my own/mode=x/layers.py:Mine"): facts for case, facts in list(kept.cases.items())[:2]}
    held = replace(kept, cases=cases, laws={}, claims={}, times_s={})
    write_baseline(held, tmp_path / "b.json")
    assert read_baseline(tmp_path / "b.json") == held


def test_a_file_without_what_calls_keep_is_read(kept: Baseline, tmp_path: Path) -> None:
    write_baseline(kept, tmp_path / "b.json")
    held = json.loads((tmp_path / "b.json").read_text())
    for of_case in held["cases"].values():
        del of_case["kept_bytes"]
    (tmp_path / "b.json").write_text(json.dumps(held))
    assert {facts.count("kept_bytes") for facts in read_baseline(tmp_path / "b.json").cases.values()} == {None}


def test_a_law_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="does not say of what it is"):
        parse_finding_id("impl=rnn.elman mode=train")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("impl=rnn.elman seq_len=8 d_model=4", "it has no num_heads"),
        ("impl=rnn.elman seq_len=8 d_model=4 num_heads=1 of=flops", "a case is not of anything"),
    ],
)
def test_a_key_that_is_no_case_says_why(key: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_case(key)
