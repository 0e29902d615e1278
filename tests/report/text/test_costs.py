"""Who overtakes the quickest RNN, where many may."""

from collections.abc import Sequence

from report.found import FORWARD
from report.many import many_lines

from harness.analysis.analyse import Analysis
from harness.analysis.crossovers import Crossover
from harness.report.report_data import Contents

RNN = "rnn.torch"
ATTENTION = [f"attention.{name}" for name in ("module", "naive", "packed", "chunked", "fused", "gqa", "window", "flex")]


def said(crossovers: Sequence[Crossover]) -> list[str]:
    """The sentences after the one on the fastest."""
    (answer,) = Contents(many_lines([RNN, *ATTENTION]), Analysis(crossovers=list(crossovers))).answers
    return list(answer.sentences[1:])


def over(slower: str, n: float | None, lo: float | None = 0.0, hi: float | None = None) -> Crossover:
    return Crossover(slower, RNN, FORWARD, "time", 32, 2, 1, n, lo, hi, 64, 512)


def test_up_to_six_pairs_are_told_in_their_order() -> None:
    pairs = [over(impl, None) for impl in ATTENTION[:5]] + [over(ATTENTION[5], 100.0, 90.0, 110.0)]
    told = said(pairs)
    assert len(told) == 6
    assert told[5].startswith(f"{ATTENTION[5]} costs more time than {RNN} from n = 100")


def test_of_more_than_six_the_decided_crossings_come_first_and_the_rest_is_counted() -> None:
    undecided = [over(impl, None) for impl in ATTENTION[:5]]
    always, late, early = (
        over(ATTENTION[5], 0.0, 0.0, 0.0),
        over(ATTENTION[6], 300.0, 280.0, 320.0),
        over(ATTENTION[7], 100.0, 90.0, 110.0),
    )
    told = said([*undecided, always, late, early])
    assert [sentence.partition(" ")[0] for sentence in told[:3]] == [ATTENTION[7], ATTENTION[6], ATTENTION[5]]
    assert len(told) == 7
    assert told[6] == "and 2 more pairs: crossovers.csv"


def test_one_left_is_one_pair() -> None:
    assert said([over(impl, None) for impl in ATTENTION[:7]])[-1] == "and 1 more pair: crossovers.csv"
