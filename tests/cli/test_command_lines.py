"""Whatever is written after `sweep`, it ends with 0, 2 or 3, refused in one line, and writes into `out` alone."""

from collections.abc import Iterator

import pytest
from cli.command_lines import command_lines, going_on
from cli.in_scratch import Scratch, violations
from hypothesis import given, settings
from hypothesis import strategies as st

# What is made up is the same at every run; the soak in benchmarks draws others.
_often = settings(max_examples=20, derandomize=True, deadline=None, database=None)


@pytest.fixture(scope="module")
def scratch() -> Iterator[Scratch]:
    with Scratch() as made:
        yield made


@_often
@given(command_lines(), st.sampled_from(("--dry-run", "--cfg")))
def test_one_that_measures_nothing(scratch: Scratch, arguments: list[str], flag: str) -> None:
    assert violations(scratch.carried_out([flag, *arguments])) == []


@_often
@given(command_lines())
def test_one_that_measures(scratch: Scratch, arguments: list[str]) -> None:
    assert violations(scratch.carried_out(arguments)) == []


@_often
@given(going_on())
def test_one_that_goes_on_with_a_run(scratch: Scratch, arguments: list[str]) -> None:
    assert violations(scratch.carried_out(arguments)) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["out='new\udcff'"], r"out='new\udcff': a control character, or a byte that is not UTF-8, is in it"),
        (["--config-dir", "broken conf", "shape=nul"], r"out='a\x00b': a control character"),
        (["--config-dir", "broken conf", "shape=bytes"], "broken conf/shape/bytes.yaml is not UTF-8"),
    ],
)
def test_one_that_was_no_refusal_once(scratch: Scratch, arguments: list[str], said: str) -> None:
    outcome = scratch.carried_out(arguments)
    assert (outcome.status, violations(outcome)) == (2, [])
    assert said in outcome.err


def test_statuses_to_retry_may_be_lists_of_lists_as_axes_may(scratch: Scratch) -> None:
    assert scratch.carried_out(["--cfg", "retry=[oom],[error,timeout]"]).status == 0
