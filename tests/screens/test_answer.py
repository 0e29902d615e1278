"""The answer after a sweep: on the terminal, and in report.md."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rows import lines as lines_of
from screens.states import failed, renamed, usual
from screens.text_file import printed, terminal, titled
from study.report.found import FORWARD, some_findings, some_lines, some_origin
from study.report.many import many_lines, without
from syrupy import SnapshotAssertion

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.study.analyse import Analysis, analyse
from harness.study.laws.crossovers import Crossover
from harness.study.laws.fitted_laws import laws_table as csv_of_laws
from harness.study.laws.laws import Range, exponent_text
from harness.study.report.report_data import Contents, next_steps, report_markdown, show_answer
from harness.study.report.text.cost_models import laws_table

ATTENTION = [f"attention.{name}" for name in ("module", "naive", "packed", "chunked", "fused", "gqa", "window", "flex")]


def shown(contents: Contents, width: int = 100) -> str:
    console = terminal(width)
    show_answer(contents, console)
    return printed(console)


def answer(lines: Sequence[CaseResult], width: int = 100) -> str:
    return shown(Contents(lines, analyse(lines)), width)


def test_the_fastest_layer_the_crossings_and_the_costs_are_told(snapshot: SnapshotAssertion) -> None:
    lines = usual()
    vague = [replace(line, time_hi_s=line.time_s * 3) for line in lines]
    small = [line for line in lines if line.seq_len <= 512 and line.impl != "attention.naive"]
    once = [replace(line, time_lo_s=0.0, time_hi_s=None) for line in lines]
    screens = {"usual": lines, "wide intervals": vague, "short sequences": small, "one trial each": once}
    assert titled({title: answer(of) for title, of in screens.items()}) == snapshot


def test_crossings_name_their_setting_if_there_are_several() -> None:
    both = [*usual(), *(replace(line, mode="train") for line in usual())]
    crossings = re.findall(r"^.*is slower than.*$", answer(both, 200), re.MULTILINE)
    assert crossings
    assert all(line.startswith(("forward, ", "train, ")) for line in crossings)


@pytest.mark.parametrize("width", [120, 75, 62])
def test_exponents_give_way_to_names_and_numbers_are_never_cut(width: int, snapshot: SnapshotAssertion) -> None:
    longer = renamed(usual(), rnn_torch="rnn.minlstm.parallel", attention_fused="attention.linear.recurrent")
    own = [replace(line, impl=f"a.module.of.mine:{line.impl}") for line in usual()]
    screens = {"ours": answer(longer, width), "own": answer(own, width)}
    assert "…" not in "".join(screens.values())
    assert titled(screens) == snapshot


def test_what_failed_was_not_timed_or_not_counted_is_told_once_with_its_reason(snapshot: SnapshotAssertion) -> None:
    lines = usual()
    untimed = [replace(line, time_s=None) if line.impl == "attention.naive" else line for line in lines]
    odd = [
        replace(line, status="unsupported", reason="odd", time_s=None) if line.num_heads == 8 else line
        for line in lines
    ]
    unknown = {"peak_bytes": None, "peak_traced_bytes": 2**17, "peak_resident_bytes": 100 * 2**20}
    outside = [
        replace(line, **unknown, facts_unknown="peak_bytes: it allocates outside torch")
        if (line.impl, line.seq_len) == ("attention.naive", 2048)
        else line
        for line in lines
    ]
    away = many_lines(["rnn.gru", "attention.flash_attn", "attention.xformers"])
    for impl in ("attention.flash_attn", "attention.xformers"):
        away = without(away, impl, "unsupported", f"{impl} is not installed")
    strange = renamed(
        [line for line in lines if line.d_model == 128], attention_naive="my.mod:[red]", rnn_torch="a\x1b[31mb"
    )
    strange[0] = replace(strange[0], status="error", reason="[/bold] in a message", time_s=None)
    screens = {
        "all failed": failed(lines),
        "one layer not timed": untimed,
        "one panel not supported": odd,
        "memory outside torch": outside,
        "layers that are not installed": away,
        "markup and control characters": strange,
    }
    assert titled({title: answer(of) for title, of in screens.items()}) == snapshot


def over(slower: str, n: float | None, lo: float | None = 0.0, hi: float | None = None) -> Crossover:
    return Crossover(slower, "rnn.torch", FORWARD, "time", 32, 2, 1, n, lo, hi, 64, 512)


def test_of_many_crossings_the_decided_ones_come_first_and_the_rest_is_counted(snapshot: SnapshotAssertion) -> None:
    lines = many_lines(["rnn.torch", *ATTENTION])
    undecided = [over(impl, None) for impl in ATTENTION[:5]]
    decided = [over(ATTENTION[5], 0.0, 0.0, 0.0), over(ATTENTION[6], 300.0, 280.0, 320.0)]
    decided.append(over(ATTENTION[7], 100.0, 90.0, 110.0))
    screens = {
        "six pairs": [*undecided, decided[2]],
        "seven pairs": [over(impl, None) for impl in ATTENTION[:7]],
        "eight pairs": [*undecided, *decided],
    }
    answers = {title: Contents(lines, Analysis(crossovers=of)).answers[0].sentences for title, of in screens.items()}
    assert titled({title: "\n".join(sentences) for title, sentences in answers.items()}) == snapshot


@pytest.mark.parametrize(("width", "most"), [(80, 6), (60, 9)])
def test_few_lines_of_sentences_follow_the_tables(width: int, most: int) -> None:
    lines = many_lines(["rnn.torch", *ATTENTION])
    wide = [replace(line, time_lo_s=(line.time_s or 1.0) / 2, time_hi_s=(line.time_s or 1.0) * 2) for line in lines]
    pairs = [over(impl, None, hi=300.0) for impl in ATTENTION[:3]] + [over(impl, None) for impl in ATTENTION[3:]]
    for of in (lines, wide, [*wide, *(replace(line, mode="train") for line in wide)]):
        text = shown(Contents(of, replace(analyse(of), crossovers=pairs)), width)
        sentences = text.rstrip().split("\n\n")[-1].splitlines()
        assert 1 < len(sentences) <= most
        assert re.fullmatch(r"Left out: (\d+ [a-z ]+(, )?)+: see report.md.", sentences[-1])


def test_ratios_to_a_baseline_are_marked_where_noise_alone_could_explain_them() -> None:
    lines = [replace(line, time_lo_s=line.time_s / 2, time_hi_s=line.time_s * 2) for line in usual()]
    sure = Contents(usual(), analyse(usual()), baseline="attention.fused")
    vague = Contents(lines, analyse(lines), baseline="attention.fused")
    marks = [[row[3] for row in contents.answers[0].table.rows] for contents in (sure, vague)]
    assert [sum(mark.startswith("~") for mark in of_run) for of_run in marks] == [0, 2]
    assert marks[1].count("1.00") == 1, "the baseline itself is not marked"


def test_an_exponent_that_is_not_determined_is_a_question_mark_and_an_empty_column_is_left_out() -> None:
    two_sizes = [line for line in usual() if line.seq_len in (1024, 2048)]
    contents = Contents(two_sizes, analyse(two_sizes))
    table = contents.answers[0].table
    assert {row[list(table.columns).index("exponent")] for row in table.rows} == {"?"}
    for text in (shown(contents), report_markdown(contents)):
        assert "?: not determined; laws.csv has the 95 % interval and the reason" in " ".join(text.split())
    models = {head[0].text: rows for head, rows in laws_table(contents.findings.laws).groups.items()}
    assert {str(row[2])[0] for row in models["time"]} == {"?"}
    assert exponent_text(Range(1.2, 0.0, 3.0)) == "? (0.00 to 3.00)"
    assert "exponent" in answer(usual())
    assert "? is not determined" not in answer(usual())
    assert "exponent" not in answer([line for line in usual() if line.seq_len == 2048])
    assert "of peak" not in answer(usual(), 200), "the machine is not calibrated"
    calibrated = [replace(line, of_peak=0.5, gb_per_s=12.0) for line in usual()]
    assert {"GB/s", "of peak"} <= set(re.split(r"\s{2,}", answer(calibrated, 200).replace("\n", "  ")))


# Of scaled dot products written down, on an H200.
ON_A_GPU = {512: 514e-6, 1024: 709e-6, 2048: 1.75e-3, 4096: 6.36e-3, 8192: 26.1e-3}


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        (ON_A_GPU, "points lie further from this law than their accuracy allows"),
        ({512: 514e-6, 1024: 709e-6}, "n takes 2 values"),
    ],
)
def test_a_question_mark_is_explained_by_the_reason_in_the_table_of_laws(times: dict[int, float], reason: str) -> None:
    cases = [Case("attention.naive", n, 1024, 16) for n in times]
    run = [
        replace(line, time_lo_s=0.998 * line.time_s, time_hi_s=1.002 * line.time_s)
        for line in lines_of(cases, lambda case: times[case.seq_len], lambda case: 0)
    ]
    contents = Contents(run, analyse(run))
    explained = contents.answers[0].table.explained["exponent"].rpartition("; ?: ")[2]
    assert explained == "not determined; laws.csv has the 95 % interval and the reason"
    [law] = csv_of_laws(contents.findings.laws).query("metric == 'time'").to_dict("records")
    assert not law["determined"]
    assert reason in law["reason"]
    assert law["exponent_n_lo"] < law["exponent_n_hi"]


def test_the_next_command_names_the_run_and_the_setting_of_the_first_answer() -> None:
    lines = [*usual(), *(replace(line, mode="train") for line in usual())]
    contents = Contents(lines, analyse(lines))
    next_command = next_steps(contents, Path("my run"), Path("elsewhere"), ["summary.csv"])[-1]
    assert next_command == (
        "Next:   python -m harness recommend 'my run' seq_len=4096 d_model=256 num_heads=8 mode=forward"
    )


@pytest.mark.parametrize(
    ("chosen", "end"),
    [
        ({"seq_len": 512}, "Next:   measure more lengths, such as seq_len=512,1024,2048"),
        ({"batch_size": 1}, "seq_len=4096 d_model=256 num_heads=8 batch_size=1"),
    ],
)
def test_the_next_command_is_one_that_the_run_can_answer(chosen: dict[str, int], end: str) -> None:
    lines = [*usual(), *(replace(line, batch_size=2) for line in usual() if "batch_size" in chosen)]
    lines = [line for line in lines if line.seq_len == chosen.get("seq_len", line.seq_len)]
    contents = Contents(lines, analyse(lines))
    assert next_steps(contents, Path("run"), Path("run"), [])[-1].endswith(end)


def test_many_times_that_cannot_be_compared_are_measured_again_with_more_precision() -> None:
    lines = [replace(line, time_lo_s=(line.time_s or 0.0) / 20) for line in usual()]
    origin = replace(some_origin(), command="python -m harness sweep impl=rnn.torch precision=quick")
    contents = Contents(lines, analyse(lines), origin)
    assert next_steps(contents, Path("run"), Path("run"), [])[-1].endswith(
        "python -m harness sweep impl=rnn.torch precision=standard"
    )
    strict = Contents(lines, analyse(lines), replace(origin, changed={"precision": "strict"}))
    assert "harness recommend" in next_steps(strict, Path("run"), Path("run"), [])[-1]


def test_report_md_is_the_answer_with_claims_failures_and_its_command(snapshot: SnapshotAssertion) -> None:
    lines = some_lines()
    machine = {"torch": {"version": "x.y.z"}, "cpu": {"model": "a processor"}}
    usual_report = report_markdown(Contents(lines, some_findings(lines), some_origin(**machine)))
    nothing = report_markdown(Contents([], Analysis(), some_origin()))
    assert titled({"usual": usual_report, "nothing measured": nothing}) == snapshot


def test_report_md_is_short_enough_for_a_pull_request(snapshot: SnapshotAssertion) -> None:
    lines = [replace(line, batch_size=b) for line in some_lines() for b in range(1, 20)]
    lines = [replace(line, reason=f"{line.reason} {line.batch_size}") if line.reason else line for line in lines]
    found = some_findings(some_lines())
    crossing = [replace(found.crossovers[0], batch_size=b) for b in range(1, 60)]
    text = report_markdown(Contents(lines, replace(found, crossovers=crossing), some_origin()))
    assert len(text.splitlines()) < 150
    assert text == snapshot
