"""The answer in words and numbers."""

import re
from dataclasses import replace

import pytest
from report.many import many_lines, without
from rich.console import Console
from rows import usual_lines

from harness import formatting
from harness.analysis.analyse import analyse
from harness.report.report_data import Contents, show_answer
from harness.results.columns import CaseResult


def said(lines: list[CaseResult], width: int = 80) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        show_answer(Contents(lines, analyse(lines)), console)
        return console.export_text()


def test_it_tells_costs_at_the_largest_n_of_the_widest_panel() -> None:
    text = said(usual_lines())
    assert "Cost of one call at n = 2048, d = 256, h = 8" in text
    assert "attention.fused" in text
    assert "32.0 MiB" in text  # naive, 8 n²
    assert "1.00 → 1.00" in text


def test_the_fastest_is_named_and_whether_that_is_sure() -> None:
    sure = usual_lines()
    assert "Fastest at n = 2048: rnn.torch, 2.00 times as fast as attention.fused." in said(sure, width=120)
    vague = [replace(line, time_hi_s=line.time_s * 3) for line in sure]
    assert "No clear winner at n = 2048: rnn.torch" in said(vague, width=120)


def test_it_tells_from_which_n_on_attention_costs_more_than_the_rnn() -> None:
    # 8nd² + 4n²d at 10¹¹/s against 4nd² at 2·10¹⁰/s: equal where n = 3d; twice that, the naive layer's, at n = d/2.
    text = said(usual_lines())
    assert "attention.fused costs more time than rnn.torch from n = 750 (747 to 753) on." in text
    assert "attention.naive costs more time than rnn.torch from n = 128 (123 to 131) on." in text


def test_it_tells_when_attention_never_does() -> None:
    text = said([line for line in usual_lines() if line.seq_len <= 512 and line.impl != "attention.naive"])
    assert "attention.fused costs no more time than rnn.torch at n = 64 to 512." in text


def test_the_numbers_fit_a_narrow_terminal() -> None:
    assert "…" not in said(usual_lines(), width=80)


def test_exponents_give_way_to_names_and_it_is_told_which() -> None:
    named = {"rnn.torch": "rnn.minlstm.parallel", "attention.fused": "attention.linear.recurrent"}
    lines = [replace(line, impl=named.get(line.impl, line.impl)) for line in usual_lines()]
    wide, narrow, narrower = (said(lines, width=width) for width in (120, 75, 62))
    for text in (wide, narrow, narrower):
        for name in named.values():
            assert re.search(rf"^{name} +\d", text, re.MULTILINE)
        assert "32.0 MiB" in text
    assert "1.00 → 1.00  1.00 → 1.00" in wide
    assert "no room" not in wide
    assert "1.00 → 1.00" in narrow
    assert "no room here for the exponent of memory: see report.md" in narrow
    assert "1.00 → 1.00" not in narrower
    assert "exponent: doubling n" not in narrower
    assert "no room here for the exponent of time and exponent of memory: see report.md" in " ".join(narrower.split())


def test_a_name_longer_than_any_of_ours_is_folded_and_no_number() -> None:
    lines = [replace(line, impl=f"a.module.of.mine:{line.impl}") for line in usual_lines()]
    assert "1.00 → 1.00  1.00 → 1.00" in said(lines, width=90)
    for width in (90, 80, 62):
        text = said(lines, width=width)
        assert "32.0 MiB" in text
        assert "…" not in text


def test_layers_that_cannot_be_measured_here_are_told_in_one_line() -> None:
    away = ["attention.flash_attn", "attention.xformers", "attention.linear.fla"]
    lines = many_lines(["rnn.gru", *away])
    for impl in away:
        lines = without(lines, impl, "unsupported", f"{impl} is not installed")
    text = said(lines, width=200)
    remarks = [line for line in text.splitlines() if line.startswith("unsupported")]
    assert len(remarks) == 1
    assert all(impl in remarks[0] for impl in away)


def test_control_characters_are_seen_rather_than_obeyed() -> None:
    lines = [replace(line, impl="red\x1b[31m") if line.impl == "rnn.torch" else line for line in usual_lines()]
    text = said(lines, width=120)
    assert "red\\x1b[31m" in text
    assert "\x1b[31m" not in text


def test_equal_failures_are_told_once_with_their_reason() -> None:
    lines = [replace(line, status="oom", reason="can't allocate", time_s=None) for line in usual_lines()]
    text = said(lines, width=200)
    assert f"oom: attention.fused n=64 d=128 h=2 and {len(lines) - 1} more: can't allocate" in text


def test_what_came_from_outside_is_not_read_as_markup() -> None:
    lines = [line for line in usual_lines() if line.impl == "attention.naive"]
    lines[0] = replace(lines[0], status="error", reason="[/bold] in a message", time_s=None)
    text = said([replace(line, impl="my.mod:[red]") for line in lines], width=200)
    assert "error: my.mod:[red] n=64 d=128 h=2: [/bold] in a message" in text


def test_the_answer_is_of_the_panel_where_most_was_measured() -> None:
    lines = [
        replace(line, status="unsupported", reason="odd", time_s=None) if line.num_heads == 8 else line
        for line in usual_lines()
    ]
    assert "at n = 2048, d = 256, h = 2" in said(lines)


def test_a_case_that_was_interrupted_before_its_first_trial_is_not_timed() -> None:
    lines = [replace(line, time_s=None) if line.impl == "attention.naive" else line for line in usual_lines()]
    assert "not timed" in said(lines, width=120)


def test_one_trial_alone_is_said_to_be_one() -> None:
    lines = [replace(line, time_lo_s=0.0, time_hi_s=None) for line in usual_lines()]
    assert "one trial" in said(lines, width=120)


@pytest.mark.parametrize(
    ("value", "text"), [(2.5, "2.50 s"), (0.0213, "21.3 ms"), (4.5e-5, "45.0 µs"), (3e-9, "3.00 ns"), (0.123, "123 ms")]
)
def test_times_have_three_digits_and_a_unit(value: float, text: str) -> None:
    assert formatting.seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(512, "512 B"), (6291456, "6.00 MiB"), (3 * 2**40, "3.00 TiB")])
def test_sizes_are_in_powers_of_1024(value: float, text: str) -> None:
    assert formatting.size(value) == text


def test_memory_allocated_outside_torch_shows_both_numbers_and_has_no_law() -> None:
    lines = usual_lines()
    largest = max(line.seq_len for line in lines)
    unknown = {"peak_bytes": None, "peak_traced_bytes": 2**17, "peak_resident_bytes": 100 * 2**20}
    known = analyse(lines)
    partly = [
        replace(line, **unknown, facts_unknown="peak_bytes: it allocates outside torch")
        if (line.impl, line.seq_len) == ("attention.naive", largest)
        else line
        for line in lines
    ]
    found = analyse(partly)
    row = next(row for row in said(partly, width=160).splitlines() if row.startswith("attention.naive"))
    assert "≥ 128 KiB traced, 100 MiB resident" in row
    assert row.rstrip().endswith("unknown")
    assert "it allocates outside torch" in said(partly, width=160)
    of_memory = [{law.series.impl for law in one.laws if law.series.metric == "memory"} for one in (known, found)]
    assert of_memory[0] - of_memory[1] == {"attention.naive"}
    assert all("attention.naive" not in (one.slower, one.faster) for one in found.crossovers if one.metric == "memory")
    (verdict,) = (one for one in found.verdicts if (one.impl, one.quantity) == ("attention.naive", "memory"))
    assert (verdict.verdict, verdict.reason) == (
        "undetermined",
        "its peak memory is not known: it allocates memory outside torch",
    )
