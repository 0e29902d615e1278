"""What a comparison with an exponent says, by how well the exponent is known: made of numbers, without a clock."""

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace

import pytest
from rows import PRECISION, measured

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise
from harness.extras.pytest_plugin.scaling import Quantity
from harness.extras.pytest_plugin.shared_measurements import Request, read_request

SIZES = (64, 128, 256, 512, 1024)
OWN_AXES = '{"window": ["w", 128]}'


class Machine:
    """A layer's times as a function of n, and of how often they were measured."""

    def __init__(
        self, time_s: Callable[[int, int], float], sizes: Sequence[int] = SIZES, request: Request | None = None
    ) -> None:
        cases = tuple(Case("own:Layer", n, 64, 1) for n in sizes)
        self.request = request or Request("Layer", "seq_len", cases, PRECISION, OWN_AXES)
        self.measured = 0
        self._time_s = time_s

    def lines(self, timed: bool, again: bool = False) -> list[CaseResult]:
        self.measured += 1
        rows = [measured(case, self._time_s(case.seq_len, self.measured), 8) for case in self.request.cases]
        return summarise([row | {"own_axes": OWN_AXES} for of_case in rows for row in of_case], PRECISION)

    def facts(self, cases: Iterable[Case]) -> list[CaseResult]:
        raise NotImplementedError

    def tell(self, metric: str, text: str) -> None:
        pass


def noisy(n: int, by: float) -> float:
    """Now faster, now slower by this factor: no law."""
    return 1e-6 * n * (by if SIZES.index(n) % 2 else 1 / by)


def test_a_determined_law_decides_at_once() -> None:
    machine = Machine(lambda n, time: 1e-8 * n * n)
    exponent = Quantity(machine, "time").exponent
    assert exponent == pytest.approx(2)
    assert exponent <= 2.1
    assert not exponent <= 1.1
    assert not 1.1 >= exponent  # noqa: SIM300
    assert machine.measured == 1


def test_what_is_undetermined_holds_where_the_whole_interval_does() -> None:
    machine = Machine(lambda n, time: noisy(n, 1.5))
    exponent = Quantity(machine, "time").exponent
    assert exponent > exponent.lo - 1
    assert not exponent > exponent.hi + 1
    assert machine.measured == 1


def test_what_stays_undetermined_is_measured_thrice_and_then_skipped() -> None:
    machine = Machine(lambda n, time: noisy(n, 1.5))
    with pytest.raises(pytest.skip.Exception, match=r"undecided: the exponent of time of Layer is .* \(.* to .*\): "):
        assert Quantity(machine, "time").exponent <= 1.1
    assert machine.measured == 3


def test_a_disturbance_that_passes_decides_nothing() -> None:
    machine = Machine(lambda n, time: noisy(n, 1.5) if time == 1 else 1e-6 * n)
    quantity = Quantity(machine, "time")
    assert quantity.exponent <= 1.1
    assert quantity.is_linear
    assert machine.measured == 2


def test_the_message_has_the_latest_numbers() -> None:
    machine = Machine(lambda n, time: noisy(n, 1.5) if time == 1 else 1e-6 * n)
    exponent = Quantity(machine, "time").exponent
    assert exponent <= 1.1
    assert repr(exponent).startswith("1.00")


def test_two_sizes_are_the_tests_own_fault() -> None:
    machine = Machine(lambda n, time: 1e-6 * n, sizes=(64, 128))
    with pytest.raises(pytest.fail.Exception, match="n takes 2 values: a law needs 3 at least"):
        assert Quantity(machine, "time").is_linear


def test_a_time_where_none_was_taken_is_predicted() -> None:
    quantity = Quantity(Machine(lambda n, time: 1e-6 * n), "time")
    assert quantity.at(seq_len=256) == pytest.approx(256e-6, rel=0.01)
    assert quantity.at(seq_len=300) == pytest.approx(300e-6, rel=0.05)


def test_a_time_of_a_layer_with_axes_of_its_own_is_the_measured_one_along_seq_len() -> None:
    measuring = SimpleNamespace(has_heads=lambda impl: False, axes_text=lambda impl: OWN_AXES)
    request = read_request("own:Layer", "seq_len", SIZES, "quick", {}, measuring)  # type: ignore[arg-type]
    quantity = Quantity(Machine(lambda n, time: 1e-6 * n * (1.01 if n == 256 else 1), request=request), "time")
    assert quantity.at(seq_len=256) == quantity.values[256]
