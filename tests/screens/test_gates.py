"""What `check` concludes: on the terminal, as Markdown for a pull request, and as JUnit XML."""

from dataclasses import replace

from screens.text_file import printed, terminal, titled
from study.check.baselines import CASES, MEMORY, TIME, baseline, facts, group, law, with_counts
from syrupy import SnapshotAssertion

from harness.study.check.baseline import ClaimKept, FindingId
from harness.study.check.check import check_remarks, judge_baseline
from harness.study.check.check_rules import Outcome, Verdict
from harness.study.check.reporters import GateReport

NASTY = "a|b <i>& \x00\x1b[31m \ud800\ufffe [red] `x` \n## heading @somebody"
FOUND = [Outcome(f"rnn.elman n={8 * i}", "flops", verdict, "1", "2", NASTY) for i, verdict in enumerate(Verdict)]


def test_a_check_tells_what_got_worse_better_or_cannot_be_told(snapshot: SnapshotAssertion) -> None:
    was = baseline()
    worse = baseline(
        lambda case: with_counts(facts(case), peak_bytes=8 * case.seq_len**2), laws={MEMORY: law(2.0), TIME: law(1.6)}
    )
    less = baseline(lambda case: with_counts(facts(case), ops=13))
    uncounted = baseline(lambda case: with_counts(facts(case), flops=None, flops_full=None))
    claim = FindingId(*group(CASES[0]), "memory")
    claimed, refuted = (
        baseline(claims={claim: ClaimKept(claimed="O(n·d)", measured=measured, verdict=verdict)})
        for measured, verdict in (("n^1.00", "confirmed"), ("n^2.00", "refuted"))
    )
    instructions = replace(was, machine={"instructions": "AVX512"}), replace(was, machine={"instructions": "AVX2"})
    pairs = {
        "the same": (was, was, CASES),
        "more memory, growing faster": (was, worse, CASES),
        "one operation less": (was, less, CASES),
        "not counted any more": (was, uncounted, CASES),
        "a case without a trial": (was, baseline(cases={case: facts(case) for case in CASES[1:]}), CASES),
        "time that grows faster": (was, baseline(laws={MEMORY: law(1.0), TIME: law(1.9, 1.8, 2.0)}), CASES),
        "time whose law is not determined": (
            was,
            baseline(laws={MEMORY: law(1.0), TIME: law(2.5, 2.4, 2.6, determined=False)}),
            CASES,
        ),
        "a claim that does not hold any more": (claimed, refuted, CASES),
        "another torch": (was, replace(worse, torch="2.14.0"), CASES),
        "another CPU": (*instructions, CASES),
        "some cases": (was, was, CASES[:2]),
    }
    screens = {}
    for title, (before, now, chosen) in pairs.items():
        outcomes = judge_baseline(before, now, chosen, timed=True)
        console = terminal()
        report = GateReport("check b.json", outcomes, check_remarks(before, now, chosen, outcomes))
        report.show(console)
        screens[title] = f"{printed(console)}exit status {report.exit_status}"
    assert titled(screens) == snapshot


def test_outcomes_alike_are_one_line_on_the_terminal(snapshot: SnapshotAssertion) -> None:
    many = [Outcome(f"rnn.elman n={i}", "flops", Verdict.WORSE, "1", "2", f"more at n={i}") for i in range(7)]
    console = terminal()
    GateReport("check x", [*many, *FOUND[1:]], ["a remark"]).show(console)
    GateReport("check x", FOUND[-1:], ["a remark"]).show(console)
    assert printed(console) == snapshot


def test_markdown_has_what_is_wrong_first_and_what_passed_folded(snapshot: SnapshotAssertion) -> None:
    text = GateReport("check x", FOUND, ["a remark"]).as_markdown()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {7}  # no cell breaks the table
    assert text == snapshot


def test_junit_has_a_test_case_an_outcome_and_counts_what_is_wrong(snapshot: SnapshotAssertion) -> None:
    assert GateReport(NASTY, FOUND, (), {"torch": NASTY}).as_junit() == snapshot
