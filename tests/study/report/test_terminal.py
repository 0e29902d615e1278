"""The answer in words and numbers."""

from dataclasses import replace

import pytest
from rows import usual_lines

from harness.core.model import formatting
from harness.study.analyse import analyse


@pytest.mark.parametrize(
    ("value", "text"), [(2.5, "2.50 s"), (0.0213, "21.3 ms"), (4.5e-5, "45.0 µs"), (3e-9, "3.00 ns"), (0.123, "123 ms")]
)
def test_times_have_three_digits_and_a_unit(value: float, text: str) -> None:
    assert formatting.seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(512, "512 B"), (6291456, "6.00 MiB"), (3 * 2**40, "3.00 TiB")])
def test_sizes_are_in_powers_of_1024(value: float, text: str) -> None:
    assert formatting.size(value) == text


def test_memory_allocated_outside_torch_has_no_law_no_crossover_and_no_verdict() -> None:
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
    of_memory = [{law.series.impl for law in one.laws if law.series.metric == "memory"} for one in (known, found)]
    assert of_memory[0] - of_memory[1] == {"attention.naive"}
    assert all("attention.naive" not in (one.slower, one.faster) for one in found.crossovers if one.metric == "memory")
    (verdict,) = (one for one in found.verdicts if (one.impl, one.quantity) == ("attention.naive", "memory"))
    assert verdict.verdict == "undetermined"
