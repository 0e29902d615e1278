"""The lengths of the sequences in a batch."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.core.config.compose import compose, differences
from harness.core.model.errors import UsageError
from harness.core.model.polynomial import parse
from harness.core.model.sequence_lengths import check_lengths, claimed_flops, lengths_of, real_lengths
from harness.core.model.sweep_axes import Case


def test_lengths_of_zipf_are_n_over_the_rank_in_an_order_that_a_seed_sets() -> None:
    assert sorted(lengths_of("zipf", 4, 120), reverse=True) == [120, 60, 40, 30]
    assert lengths_of("zipf", 4, 120) == lengths_of("zipf:0", 4, 120)
    assert lengths_of("zipf:1", 64, 120) != lengths_of("zipf", 64, 120)
    assert min(lengths_of("zipf", 64, 8)) == 1


def test_lengths_of_a_file_are_its_first_lines_scaled_to_the_longest_and_repeated(tmp_path: Path) -> None:
    file = tmp_path / "lengths.txt"
    file.write_text("10\n\n5\n 1 \n40\n")
    assert lengths_of(str(file), 3, 100) == [100, 50, 10]
    assert lengths_of(str(file), 6, 100) == [25, 13, 3, 100, 25, 13]


def test_an_empty_sequence_stays_empty_and_is_in_smaller_batches_before_a_longer_one(tmp_path: Path) -> None:
    file = tmp_path / "lengths.txt"
    file.write_text("7\n2\n3\n0\n")
    assert lengths_of(str(file), 4, 70) == [70, 20, 30, 0]
    assert lengths_of(str(file), 2, 70) == [0, 70]
    assert lengths_of(str(file), 3, 70) == [0, 70, 30]
    assert lengths_of(str(file), 1, 70) == [70]
    file.write_text("0\n7\n")
    assert lengths_of(str(file), 2, 7) == [0, 7]
    with pytest.raises(UsageError, match="the first 1 are 0: begin with a longer one"):
        lengths_of(str(file), 1, 7)
    assert claimed_flops(parse("4n²d + n·log n"), [0, 4, 0], 4, 2) == 4 * 16 * 4 + 4 * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("12\nabc\n", r"line 2 is 'abc': give one length from 0 on in each line"),
        ("-1\n", "line 1 is '-1'"),
        ("0\n0\n", "is empty, or all 0: give one length in each line"),
        ("9" * 40, "line 1 is"),
        ("\n\n", "is empty, or all 0: give one length in each line"),
    ],
)
def test_a_file_of_something_else_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x").write_text(content)
    with pytest.raises(UsageError, match=message):
        check_lengths(str(tmp_path / "x"))


@pytest.mark.parametrize("text", ["zipff", "zipf:", "zipf:a", "no\nfile", "nul\0"])
def test_an_unknown_word_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no file that can be read: give equal, zipf, zipf:SEED or a file") as told:
        check_lengths(text)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(("text", "ending"), [("zpif", "; did you mean 'zipf'?"), ("lens.txt", "a file of lengths")])
def test_a_misspelt_word_is_corrected_and_a_missing_file_is_not(text: str, ending: str) -> None:
    with pytest.raises(UsageError) as told:
        check_lengths(text)
    assert str(told.value).endswith(ending)


def test_a_claim_for_one_sequence_is_summed_over_the_sequences() -> None:
    case = Case("own:f", 8, 4, 2, batch_size=3, lengths="zipf", mask="causal")
    assert sorted(real_lengths(case, 8)) == [3, 4, 8]
    assert claimed_flops(parse("8nd² + 4n²d"), [8, 4, 3], 4, 2) == 8 * 15 * 16 + 4 * (64 + 16 + 9) * 4
    assert claimed_flops(parse("4n²d"), real_lengths(replace(case, lengths="equal"), 8), 4, 2) == 3 * 4 * 64 * 4
    assert claimed_flops(parse("4nd/h"), [4, 2, 2], 4, 3) is None
    assert claimed_flops(parse("4nd/h"), [3, 2, 1], 4, 3) == 32  # only the sum is a whole number


def test_a_run_whose_file_of_lengths_has_changed_since_is_another_run(tmp_path: Path) -> None:
    file = tmp_path / "lengths.txt"

    def settings(content: str) -> dict[str, object]:
        file.write_text(content)
        config: dict[str, object] = yaml.safe_load(compose([f"lengths={file}", "batch_size=2"]).yaml)
        return config

    before = settings("10\n5\n")
    assert differences(before, settings("10\n5\n\n")) == []
    (found,) = differences(before, settings("10\n6\n"))
    assert found.startswith(f"lengths_files.{file}=")
