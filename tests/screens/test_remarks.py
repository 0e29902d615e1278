"""Remarks and the small reports: quality of measurement, failures and verification."""

from dataclasses import replace
from typing import Any

from rows import usual_lines
from screens.text_file import titled
from study.report.many import many_lines, without
from study.report.test_reach import naive, run
from syrupy import SnapshotAssertion

from harness.cli.layers import WIDTH, verification_lines, verification_summary
from harness.core.model.sweep_axes import Case
from harness.study.report.text.cautions import caution_summary, failure_remarks, quality_sentences, report_cautions

LINE = usual_lines()[0]
REASON = "gradient of projection.weight is off by 2.9e+00 of its norm, where at most 1.9e-06 is tolerated in this layer"
OK = {"status": "ok", "reason": None, "against": "NaiveReference", "tolerance": 2e-6, "output_error": 3e-7}
OK |= {"verified": {"seq_len": 64}}
LONG = "a_package_of_mine.layers_of_attention:LearnedRelativePositionsWithForgetting"


def at(impl: str = "attention.naive", **change: Any) -> Case:
    return Case(**{"impl": impl, "seq_len": 64, "d_model": 64, "num_heads": 4, "batch_size": 2, **change})


WRONG = {"status": "incorrect", "reason": REASON}
VERIFIED = [
    (at(), OK),
    (at(mode="train"), {**OK, "gradient_error": 1e-6, "gradient_tolerance": 2e-6}),
    (
        at(mode="decode", mask="padding", padding_fraction=0.25),
        {"status": "unsupported", "reason": "has no padding"},
    ),
    (at(LONG), WRONG),
    (at("rnn.elman"), {**OK, "against": "itself in float64", "output_error": 1e-9}),
]


def test_a_case_that_is_verified_at_another_size_says_so() -> None:
    first, *_ = verification_lines([(at(), {**OK, "verified": {"seq_len": 8}})])
    assert ": ok as n=8 " in first
    first, *_ = verification_lines([(at(), OK)])
    assert first.endswith(": ok")


def test_first_tokens_alone_are_told_with_what_to_do() -> None:
    sizes = (1024, 2048)
    alone = [replace(LINE, accuracy_by=f"first {n} tokens, slow_sum", seq_len=2 * n) for n in sizes]
    (said,) = report_cautions(alone)
    assert said.startswith(f"later tokens not compared (give the reference `rows`): {LINE.impl}")
    assert said.endswith(": first 1024 – 2048 tokens, slow_sum")
    assert "2 cases compared in their first tokens alone" in caution_summary(alone, ())
    for by in ("64 rows, R", "all tokens, R", "first 1024 tokens and the last 16, R"):
        assert not report_cautions([replace(LINE, accuracy_by=by)])


def test_a_layer_of_the_user_without_a_reference_is_told() -> None:
    alone = [replace(LINE, impl="own:Layer", accuracy_by="all tokens, itself in float64", seq_len=n) for n in (64, 128)]
    (said,) = report_cautions(alone)
    assert said.startswith("no reference: own:Layer")
    assert "2 cases without a reference" in caution_summary(alone, ())
    assert not report_cautions([replace(LINE, accuracy_by="all tokens, itself in float64")])


def test_an_error_far_above_the_plain_layers_is_told_if_it_is_large() -> None:
    found = {"dtype": "bfloat16", "output_error": 0.07, "error_ratio": 15.0}
    (said,) = report_cautions([replace(LINE, **found)])
    assert said.startswith("less exact: ")
    assert "its error is 15 times the plain layer's" in said
    assert "much less exact than the plain layer" in caution_summary([replace(LINE, **found)], ())
    assert report_cautions([replace(LINE, dtype="float32", output_error=2e-5, error_ratio=100.0)])
    for usual in ({"error_ratio": 3.3}, {"output_error": 1e-5}, {"allowed_error": 0.1}, {"output_error": 1e-4}):
        assert not [one for one in report_cautions([replace(LINE, **found | usual)]) if "less exact" in one]


def test_what_to_know_of_a_measurement_is_told_once_for_all_cases_alike(snapshot: SnapshotAssertion) -> None:
    sizes = (64, 128, 256)
    two = {"bimodal": True, "bimodal_fast_s": 0.0046, "bimodal_slow_s": 0.0082}
    cause = "slow trials paid 4,100 page faults a call, fast ones 12"
    states = {
        "ordinary": usual_lines(),
        "bimodal with a cause": [replace(LINE, **two, bimodal_cause=cause)],
        "bimodal without a cause": [replace(LINE, bimodal=True)],
        "many bimodal cases": [replace(LINE, **two, seq_len=n) for n in range(1, 11)],
        "a fallback": [replace(LINE, backend_fallback="it fell back to math", seq_len=n) for n in sizes],
        "host-bound": [replace(LINE, host_bound=True, wall_call_s=0.003)],
        "an approximation": [replace(LINE, output_error=30 / n, allowed_error=0.5, seq_len=n) for n in sizes],
        "facts that are not known": [replace(LINE, facts_unknown="flops: mylib::scan has no formula")],
    }
    assert titled({title: "\n".join(report_cautions(lines)) for title, lines in states.items()}) == snapshot


def test_failures_alike_are_one_remark_and_limits_are_named(snapshot: SnapshotAssertion) -> None:
    impls = ["rnn.gru", "attention.flash_attn", "attention.xformers"]
    one = without(many_lines(impls), impls[1], "unsupported", "not installed")
    states = {
        "equal reasons": [replace(LINE, status="oom", reason="out of memory", seq_len=n) for n in (64, 128)],
        "a limit": run((naive(64), "ok"), (naive(128), "ok"), (naive(256), "oom")),
        "limits alike": run(*[(naive(n, d), "ok" if n < 128 else "timeout") for n in (64, 128) for d in (32, 64)]),
        "limits of two layers": run(
            *[
                (Case(impl, n, 32, 1), "ok" if n < 128 else "oom")
                for impl in ("rnn.gru", "rnn.elman")
                for n in (64, 128)
            ]
        ),
        "a limit along d": run((naive(64, 32), "ok"), (naive(64, 64), "oom")),
        "a limit and an error": run((naive(64), "ok"), (naive(128), "oom"), (Case("rnn.elman", 64, 32, 1), "error")),
        "one layer is not installed": one,
        "two are away for the same reason": without(one, impls[2], "unsupported", "not installed"),
        "two are away for different reasons": without(one, impls[2], "unsupported", "needs a GPU"),
    }
    assert titled({title: "\n".join(failure_remarks(lines)) for title, lines in states.items()}) == snapshot


def test_a_verification_has_what_is_wrong_first_then_a_line_for_each_layer(snapshot: SnapshotAssertion) -> None:
    control = [(Case("rnn.elman", 8, 8, 1), {"status": "error", "reason": "a\x1b[31mb\nc"})]
    wide = [(Case("rnn.elman", 8, 8, 1), {**OK, "gradient_error": 1e-4, "gradient_tolerance": 1e-3})]
    screens = {
        "summary": verification_summary(VERIFIED),
        "every case": verification_lines(VERIFIED),
        "control characters": verification_summary(control),
        "a wide tolerance": verification_summary(wide),
    }
    texts = {title: list(lines) for title, lines in screens.items()}
    # No name is cut, and only a name is wider than a terminal.
    assert all(len(line) <= WIDTH or len(line.split()) == 1 for lines in texts.values() for line in lines)
    assert titled({title: "\n".join(lines) for title, lines in texts.items()}) == snapshot


def test_how_good_the_measurement_was_comes_first(snapshot: SnapshotAssertion) -> None:
    def measured(factor: float, share: float | None, reason: str = "max_rounds", probe_s: float = 1e-4) -> list[Any]:
        more = {"disturbed_share": share, "stop_reason": reason, "probe_s": probe_s}
        return [
            replace(line, time_lo_s=line.time_s / factor, time_hi_s=line.time_s * factor, **more)
            for line in usual_lines()
        ]

    best = {"calibration": {"threads": LINE.threads, "best_probe_s": 1e-4}}
    one_trial = [replace(line, time_lo_s=0.0, time_hi_s=None) for line in usual_lines()]
    told = {
        "quiet": (measured(1.02, 0.05, "precise"), best, "quick", 0.05),
        "precise at the limit of time": (measured(1.001, 0.0, "time_limit"), best, "quick", 0.05),
        "a few as precise as asked for": (measured(1.0499, None)[:3] + measured(1.0501, None)[:2], best, "quick", 0.05),
        "disturbed": (measured(1.4, 0.2) + measured(1.6, 0.8), {}),
        "slower than at calibration": (measured(1.1, 0.0, probe_s=1.25e-4), best),
        "on a GPU, without a probe": (measured(1.1, None), best),
        "one trial a case": (one_trial, {}),
        "disturbed although standard": (measured(1.4, 0.5), {}, "standard"),
        "disturbed although strict": (measured(1.4, 0.5), {}, "strict", 0.01),
        "too wide to compare": (measured(7e4, 0.5), {}),
    }
    assert titled({title: "\n".join(quality_sentences(*of)) for title, of in told.items()}) == snapshot
