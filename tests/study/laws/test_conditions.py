"""Times of one run that were taken under unlike conditions: a slower machine, or another host."""

import math
from dataclasses import replace
from typing import Any

import pytest
from rows import PRECISION, measured, row
from study.laws.fitted import fitted, law

from harness.cli.predict import recommendation
from harness.core.model.polynomial import Term
from harness.core.model.sweep_axes import Case, Setting
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise
from harness.study.complete_lines import with_ratios
from harness.study.laws.crossovers import Crossover, crossovers
from harness.study.laws.fitted_laws import fit_laws
from harness.study.laws.predict import Recommendation, SizeRequest, recommend
from harness.study.laws.series import unlikeness
from harness.study.report.figure_panels import panel_settings
from harness.study.report.overview import overviews
from harness.study.report.plots.all_plots import speed_ratios
from harness.study.report.text.cautions import report_cautions
from harness.study.report.text.costs import Answer, answers

FAST, SLOW = "attention.fused", "attention.naive"
SIZES = (256, 512)
ELSEWHERE = f"{SLOW} ran on another host: comparisons allow for that."
SLOWED = f"{SLOW} ran while the machine was up to 40 % slower: comparisons allow for that."


def lines(probe: float = 1.0, time: float = 1.0, hosts: tuple[str, str] = ("n1", "n1")) -> list[CaseResult]:
    """Two layers. The second takes `time` times as long, while the probe takes `probe` times as long."""
    rows: list[dict[str, Any]] = []
    for impl, factor, probe_s, host in ((FAST, 1.0, 1e-4, hosts[0]), (SLOW, time, probe * 1e-4, hosts[1])):
        for n in SIZES:
            of_case = measured(Case(impl, n, 64, 2), factor * n * 1e-6, 8, trials=8)
            rows += [{**one, "host": host} for one in of_case]
            for one in rows[-8:]:
                one["probe_s"] = probe_s
    return summarise(rows, PRECISION)


def answer(of: list[CaseResult]) -> Answer:
    (found,) = answers(panel_settings(of), {}, {})
    return found


def crossing(of: list[CaseResult], metric: str = "time") -> list[Crossover]:
    return [one for one in crossovers(of) if one.slower == SLOW and one.metric == metric]


def recommended(of: list[CaseResult]) -> Recommendation:
    first, second = (
        fitted([line for line in of if line.impl == impl], "time", law({Term(n=1): factor * 1e-6}))
        for impl, factor in ((FAST, 1.0), (SLOW, 1.4))
    )
    return recommend(of, [first, second], [(1.0, SizeRequest((512, 64, 2, 1), Setting.of(of[0])))], None)


def test_alike_conditions_decide_and_nothing_is_said() -> None:
    alike = lines(time=1.4)
    assert answer(alike).fastest == f"Fastest at n=512: {FAST}. {SLOW} takes 1.40 times as long."
    assert crossing(alike)[0].seq_len == 0
    assert recommended(alike).how_sure == "sure"
    assert not any("comparisons allow" in text for text in report_cautions(alike))


@pytest.mark.parametrize(
    ("conditions", "sentence"),
    [({"probe": 1.4}, SLOWED), ({"hosts": ("n1", "n2")}, ELSEWHERE)],
    ids=["slower machine", "other host"],
)
def test_unlike_conditions_decide_nothing_and_are_said_beside(conditions: Any, sentence: str) -> None:
    unlike = lines(time=1.4, **conditions)
    found = answer(unlike)
    who = f"{FAST} and {SLOW} are within measurement error"
    assert found.fastest == f"Fastest at n=512: no clear winner. {who} (~). {sentence}"
    assert found.table.rows[1][3] == "~1.40"
    title = overviews(panel_settings(unlike), {}, {})[0].title
    assert title == "No clear winner at n = 512: attention.* are within measurement error"
    assert report_cautions(unlike).count(sentence) == 1
    of_run = recommended(unlike)
    assert of_run.how_sure != "sure"
    where = SizeRequest((512, 64, 2, 1), Setting.of(unlike[0]))
    assert recommendation(of_run, str(where), None)[-1] == sentence
    assert of_run.ratio is not None
    assert of_run.ratio.lo < 1 < of_run.ratio.hi
    (picture,) = {one.lo < 0 < one.hi for one in speed_ratios(panel_settings(unlike)[0], SLOW).values()}
    assert picture


def test_layers_that_were_disturbed_alike_are_compared_and_none_is_surely_the_fastest() -> None:
    disturbed = [replace(line, disturbed_share=0.8 if line.impl == SLOW else 0.4) for line in lines(time=1.4)]
    sentence = f"{SLOW} ran while the machine was slow in most trials: comparisons allow for that."
    assert answer(disturbed).fastest.endswith(f"takes 1.40 times as long. {sentence}")
    found = recommended(disturbed)
    assert (found.how_sure, found.unlike) == ("likely", [sentence])


def test_a_crossover_of_times_is_open_and_one_of_memory_is_not() -> None:
    assert not crossing(lines(probe=1.4, time=1.4))[0].decided
    elsewhere = lines(time=1.4, hosts=("n1", "n2"))
    assert not crossing(elsewhere)[0].decided
    assert crossing(elsewhere, "memory")[0].decided


def test_a_ratio_to_the_baseline_is_as_uncertain_and_absent_on_another_host() -> None:
    ratio = with_ratios(lines(probe=1.4, time=1.4), FAST)[-1]
    assert (ratio.ratio_lo or 0.0) < 1 < (ratio.ratio_hi or 0.0)
    assert ratio.ratio == pytest.approx(1.4)
    assert with_ratios(lines(hosts=("n1", "n2")), FAST)[-1].ratio is None


@pytest.mark.parametrize("slowdown", [1.06, 1.07, 1.09, 1.12])
def test_a_layer_that_is_slower_by_as_much_as_the_machine_was_is_not_called_slower(slowdown: float) -> None:
    assert not crossing(lines(probe=slowdown, time=slowdown))[0].decided


def test_what_is_far_more_than_the_machine_explains_is_still_decided_and_the_state_said() -> None:
    far = answer(lines(probe=1.4, time=5.0)).fastest
    assert far == f"Fastest at n=512: {FAST}. {SLOW} takes 5.00 times as long. {SLOWED}"


def test_the_error_is_the_log_ratio_of_probes_if_it_is_beyond_their_noise() -> None:
    quiet, slowed = lines(probe=1.4)[0], lines(probe=1.4)[-1]
    both_ways = unlikeness(slowed, quiet), unlikeness(quiet, slowed)
    assert both_ways == pytest.approx((math.log(1.4),) * 2)
    assert unlikeness(quiet, lines(probe=1.04)[-1]) == 0
    # The probe depends on the threads, and an unknown host or probe says nothing.
    assert unlikeness(quiet, replace(slowed, threads=7)) == 0
    assert unlikeness(quiet, replace(slowed, host=None, probe_s=None)) == 0
    # The time of several hosts is that of the fastest, which may be one that did not time the other line.
    for hosts in ("n2,n3", "n1,n2"):
        assert unlikeness(quiet, replace(slowed, host=hosts, probe_s=None)) == math.inf


def test_the_probe_of_a_line_is_that_of_the_trials_that_count() -> None:
    case = Case(FAST, 256, 64, 2)
    probes_s = [1e-4] * 5 + [2e-4] * 5
    timed = [row(case, "time", i, samples_s=[1e-3], probe_s=probe_s) for i, probe_s in enumerate(probes_s)]
    assert summarise(timed, PRECISION)[0].probe_s == 1e-4


@pytest.mark.parametrize(("elsewhere", "determined"), [("n1", True), ("n2", False)])
def test_a_law_of_times_that_other_hosts_took_is_undetermined(elsewhere: str, determined: bool) -> None:
    """The sizes above 512 were timed by a host that takes three times as long."""
    rows: list[dict[str, Any]] = []
    for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192):
        host, factor = ("n1", 1.0) if n <= 512 or elsewhere == "n1" else (elsewhere, 3.0)
        of_case = measured(Case(SLOW, n, 64, 2), factor * n * 1e-6, 4 * n, trials=8)
        rows += [{**one, "host": host} for one in of_case]
    laws = {one.series.metric: one.law for one in fit_laws(summarise(rows, PRECISION))}
    assert laws["memory"].determined
    assert laws["time"].determined == determined
    assert determined or "n1 and n2" in laws["time"].reason


def test_hosts_are_told_in_one_order_whichever_timed_a_case_first() -> None:
    rows = [*measured(Case(SLOW, 64, 64, 2), 1e-3, 256), *measured(Case(SLOW, 128, 64, 2), 2e-3, 512)]
    timed = [{**one, "host": host} for host in ("b", "a") for one in rows]
    once = [{**one, "round": one["round"] + 5 * (one["host"] == "a")} for one in timed]
    swapped = [one for one in once if one["case"]["seq_len"] == 64] + [
        one for one in reversed(once) if one["case"]["seq_len"] == 128
    ]
    assert [line.host for line in summarise(swapped, PRECISION)] == ["a,b", "a,b"]


@pytest.mark.parametrize("drift", [1.0, 1.4, 1 / 1.4])
def test_a_machine_that_slowed_along_n_leaves_no_wrong_exponent(drift: float) -> None:
    """The exponent of n/10⁶ + n²/10⁹ seconds at n = 2048 is 1 + 2.048 / 3.048."""
    rows: list[dict[str, Any]] = []
    sizes = (64, 128, 256, 512, 1024, 2048)
    for at, n in enumerate(sizes):
        slower = drift ** (at / 5)
        of_case = measured(Case(SLOW, n, 64, 2), slower * (1e-6 * n + 1e-9 * n * n), 4 * n, trials=8)
        rows += [{**one, "host": "n1"} for one in of_case]
        for one in rows[-8:]:
            one["probe_s"] = slower * 1e-4
    of_run = [replace(line, flops=8 * line.seq_len * (line.seq_len + 1000)) for line in summarise(rows, PRECISION)]
    (time,) = (one for one in fit_laws(of_run) if one.series.metric == "time")
    assert time.exponent_n is not None
    assert not time.law.determined or time.exponent_n.lo <= 1 + 2.048 / 3.048 <= time.exponent_n.hi
    assert time.law.determined or drift != 1
