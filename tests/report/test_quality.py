"""The remarks on measurement quality beside the table."""

from dataclasses import replace

from rows import usual_lines

from harness.report.text.cautions import failure_remarks, report_cautions

LINE = usual_lines()[0]


def test_ordinary_lines_need_no_remark() -> None:
    assert report_cautions(usual_lines()) == []


def test_two_humps_are_told_with_their_cause() -> None:
    cause = "slow trials paid 4,100 page faults a call, fast ones 12"
    line = replace(LINE, bimodal=True, bimodal_cause=cause, bimodal_fast_s=0.0046, bimodal_slow_s=0.0082)
    (said,) = report_cautions([line])
    assert said.startswith("bimodal: attention.fused n=64 d=128 h=2: 4.60 ms in some trials, 8.20 ms in others; ")
    assert said.endswith("slow trials paid 4,100 page faults a call, fast ones 12.")


def test_two_humps_without_a_cause_are_said_to_have_none() -> None:
    assert report_cautions([replace(LINE, bimodal=True)])[0].endswith("nothing that was recorded tells them apart.")


def test_more_humped_cases_than_anybody_reads_are_counted() -> None:
    said = report_cautions([replace(LINE, bimodal=True, seq_len=n) for n in range(1, 11)])
    assert len(said) == 7
    assert said[-1] == "and 4 more bimodal cases: see summary.csv"


def test_a_fallback_is_told_once_for_all_cases() -> None:
    cases = [replace(LINE, backend_fallback="it fell back to math", seq_len=n) for n in (64, 128, 256)]
    assert report_cautions(cases) == ["fallback: attention.fused n=64 d=128 h=2 and 2 more: it fell back to math"]


def test_a_host_that_cannot_keep_up_is_told() -> None:
    (said,) = report_cautions([replace(LINE, host_bound=True, wall_call_s=0.003)])
    assert said.startswith("host-bound: attention.fused n=64 d=128 h=2: launching takes longer")
    assert "3.00 ms" in said


def test_failures_with_one_reason_are_told_once() -> None:
    cases = [replace(LINE, status="oom", reason="out of memory", seq_len=n) for n in (64, 128)]
    assert failure_remarks(cases) == ["oom: attention.fused n=64 d=128 h=2 and 1 more: out of memory"]


def test_a_claim_that_the_count_does_not_bear_out_is_told_once_a_layer() -> None:
    cases = [replace(LINE, flops=1000 * n, flops_full=1000 * n, flops_claimed=900 * n, seq_len=n) for n in (64, 128)]
    assert report_cautions(cases) == [
        "claim: attention.fused n=64 d=128 h=2 and 1 more: it claims 57,600 FLOPs and does 64,000."
    ]


def test_a_claim_of_the_whole_work_of_a_causal_layer_is_borne_out() -> None:
    assert report_cautions([replace(LINE, flops=600, flops_full=1000, flops_claimed=1000)]) == []


def test_facts_that_are_not_known_are_told_with_the_reason() -> None:
    (said,) = report_cautions([replace(LINE, facts_unknown="flops: mylib::scan has no formula")])
    assert said == "not known: attention.fused n=64 d=128 h=2: flops: mylib::scan has no formula"
