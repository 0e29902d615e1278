"""The sentences of the report about the analysis."""

from dataclasses import replace

import pytest
from rows import usual_lines
from study.report.found import FORWARD, some_findings

from harness.study.analyse import Analysis
from harness.study.claims.claims_table import NOT_CLAIMED, ClaimVerdict
from harness.study.laws.crossovers import Crossover
from harness.study.laws.fitted_laws import fit_laws, laws_by_series
from harness.study.report.figure_panels import panel_settings
from harness.study.report.report_data import Contents
from harness.study.report.text.cautions import caution_summary, report_cautions, unchecked_times
from harness.study.report.text.costs import COST_TEXTS, answers, possible_crossings

FOUND = some_findings([])


def crossover(n: float | None, lo: float | None, hi: float | None, slower: str = "a", faster: str = "b") -> Crossover:
    return Crossover(slower, faster, FORWARD, "time", 256, 8, 1, n, lo, hi, 64, 2048)


def test_a_pair_is_told_once_and_only_if_it_crosses_or_may() -> None:
    crossing = crossover(768.0, 700.0, 900.0)
    back = crossover(None, 0.0, None, "b", "a")
    never = crossover(None, 2048.0, None, "a", "c")
    always = crossover(0.0, 0.0, 0.0, "c", "a")
    assert possible_crossings([back, crossing, never, always]) == [crossing]


def test_sure_crossings_come_before_undecided_ones_and_by_n() -> None:
    late, early = crossover(900.0, 800.0, 950.0), crossover(100.0, 90.0, 120.0, "c", "d")
    open_one = crossover(None, 0.0, None, "e", "f")
    assert possible_crossings([open_one, late, early]) == [early, late, open_one]


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("time", 0.0021, "2.10 ms"),
        ("memory", 2**20, "1.00 MiB"),
        ("flops", 4.19e8, "4.19·10⁸ FLOPs"),
        ("depth", 770, "770"),
    ],
)
def test_a_cost_has_its_unit(metric: str, value: float, text: str) -> None:
    assert COST_TEXTS[metric](value) == text


def test_a_suspect_case_has_no_rank_and_its_reason_is_told() -> None:
    fastest = answers(panel_settings(usual_lines()), {}, {})[0].fastest.split(": ")[1].split(".")[0]
    lines = [replace(line, suspect="too fast") if line.impl.startswith(fastest) else line for line in usual_lines()]
    (answer, *_) = answers(panel_settings(lines), {}, {})
    assert fastest not in answer.fastest
    assert str(answer.table.rows[-1][0]).startswith(fastest)
    assert str(answer.table.rows[-1][3]) == "suspect"
    assert any(text.startswith("suspect, without a rank: ") and "too fast" in text for text in report_cautions(lines))
    assert ": too fast). See report.md." in caution_summary(lines, [])


@pytest.mark.parametrize("failed", [{"status": "incorrect"}, {}])
def test_a_case_without_a_time_has_no_exponent_in_the_table_of_costs(failed: dict[str, str]) -> None:
    largest = max(line.seq_len for line in usual_lines())
    untimed = {"time_s": None, "time_lo_s": None, "time_hi_s": None, **failed}
    lines = [
        replace(line, **untimed) if line.impl == "attention.naive" and line.seq_len == largest else line
        for line in usual_lines()
    ]
    (answer, *_) = answers(panel_settings(lines), {}, laws_by_series(fit_laws(lines)))
    exponents = {str(row[0]): str(row[-1]) for row in answer.table.rows}
    assert exponents.pop("attention.naive") == ""
    assert all(exponents.values())


def test_a_caution_names_the_options_of_its_case() -> None:
    line = replace(usual_lines()[0], bimodal=True, options="window=32")
    name = f"{line.impl} n={line.seq_len} d={line.d_model} h={line.num_heads} window=32"
    assert report_cautions([line])[0].startswith(f"bimodal: {name}: ")
    assert f"1 case bimodal ({name})" in caution_summary([line], [])


def test_a_claim_that_nobody_made_is_not_counted() -> None:
    lines = usual_lines()
    made = ClaimVerdict("their:step", lines[0].series, "memory", "nd", "nd", "confirmed", "")
    lacking = replace(made, quantity="work_decode", claimed=NOT_CLAIMED, verdict="undetermined")
    assert Contents(lines, Analysis(verdicts=[made, lacking])).verdicts == "Of 1 claim 1 confirmed."
    assert Contents(lines, Analysis(verdicts=[lacking])).verdicts == ""


def test_the_fastest_layer_is_named_with_what_it_prepares_if_that_takes_longer_than_a_call() -> None:
    def fastest(prepare_s: float) -> str:
        lines = [replace(line, prepare_s=prepare_s * (line.time_s or 0.0)) for line in usual_lines()]
        return answers(panel_settings(lines), {}, {})[0].fastest

    assert " of prepare. " in fastest(2.0)
    assert " of prepare" not in fastest(0.5)


def test_a_layer_that_prepares_pays_off_after_some_calls() -> None:
    line = max(usual_lines(), key=lambda line: line.seq_len)
    fast, slow = replace(line, impl="fast", time_s=1e-3, prepare_s=25e-3), replace(line, impl="slow", time_s=3e-3)
    (text,) = report_cautions([fast, slow])
    assert text.startswith("prepare: fast ")
    assert text.endswith("25.0 ms outside its calls. Beside slow, that pays off after 13 calls.")
    suspect = replace(slow, impl="suspect", time_s=2e-3, suspect="its threads work on")
    assert "Beside slow, that" in report_cautions([fast, slow, suspect])[-1]
    (text,) = report_cautions([fast, replace(slow, time_s=0.5e-3)])
    assert text.endswith("outside its calls.")
    assert report_cautions([replace(fast, prepare_s=1e-6), slow]) == []


def test_a_time_without_a_peak_to_hold_it_against_is_named_and_an_unknown_machine_is_not() -> None:
    line = usual_lines()[0]
    bandwidth = {"bandwidth_bytes_per_s": 1e10, "cache_bytes": 2**25}
    made = {"bandwidth": bandwidth, "noise_floor": 0.02, "device": line.device, "threads": line.threads}
    machine = {"calibration": {**made, "peak_flops_per_s": {line.dtype: 1e12}}}
    assert unchecked_times([line], machine) == unchecked_times([line], {}) == []
    (text,) = unchecked_times([line, replace(line, dtype="float64")], machine)
    assert text.startswith(f"Impossibly short times are not looked for in {line.impl} n={line.seq_len} ")
    assert "more case" not in text
    machine["calibration"]["noise_floor"] = None
    (text,) = unchecked_times([line], machine)
    assert text.startswith("Impossibly short times are not looked for. Noise floor: not measured")
    (text,) = unchecked_times([line], {"calibration": None})
    assert text.endswith("`python -m harness calibrate` gives later sweeps one.")
