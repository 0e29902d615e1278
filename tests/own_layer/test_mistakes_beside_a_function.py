"""What is wrong with an attribute of a function is not blamed on the function: the attribute is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.trial.accuracy import measure_accuracy
from harness.core.trial.trial_kinds import outcome_of_exception
from harness.core.trial.verify import verify
from harness.core.trial.workload import build

HEAD = """
import torch
from torch.nn.functional import scaled_dot_product_attention as attention


def f(q, k, v, table=None):
    return attention(q, k, v, attn_mask=table)


def make(q, k, v):
    return {"table": torch.ones(q.shape[2], q.shape[2], dtype=q.dtype).tril()}


def missing_key(q, k, v):
    raise KeyError("scale")


def steep(q, k, v):
    return attention(q, k, v) + (q - q).sqrt()


def finite_at_12(q, k, v):
    return attention(q, k, v) * (1 if q.shape[2] == 12 else float("nan"))


"""


def case_with(tmp_path: Path, lines: str, **changed: object) -> Case:
    """A case of a function `f` and these lines after it."""
    tmp_path.mkdir(exist_ok=True)
    file = tmp_path / "mine.py"
    file.write_text(HEAD + lines)
    return replace(Case(f"{file}:f", 12, 16, 4), **changed)  # type: ignore[arg-type]


def outcome(case: Case) -> tuple[str, str]:
    """The status and the reason of a verification that fails."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        verify(case, seed=0)
    found = outcome_of_exception(raised.value)
    return found["status"], found["reason"]


@pytest.mark.parametrize(
    ("lines", "mode", "said"),
    [
        ("lambda q, k, v: q + None", "forward", "TypeError: its reference <lambda> fails: unsupported operand"),
        ("missing_key", "forward", "KeyError: its reference missing_key fails: 'scale' (mine.py:"),
        (
            "lambda q, k, v: attention(q, k, v)[..., :1]",
            "forward",
            "ValueError: its reference <lambda> returned shape (1, 4, 12, 1) instead of (1, 4, 12, 4)",
        ),
        ("lambda q, k, v: q / 0", "forward", "ValueError: its reference <lambda> is not finite"),
        ("steep", "train", "ValueError: its reference steep's gradient of q is not finite"),
    ],
)
def test_a_wrong_reference_is_named(tmp_path: Path, lines: str, mode: str, said: str) -> None:
    status, reason = outcome(case_with(tmp_path, f"f.reference = {lines}\n", mode=mode))
    assert (status, reason[: len(said)]) == ("error", said)


def test_a_reference_that_is_not_finite_at_the_timed_size_is_named(tmp_path: Path) -> None:
    case = case_with(tmp_path, "f.reference = finite_at_12\n")
    verify(case, seed=0)
    case, unknown = replace(case, seq_len=16), list[str]()
    measure_accuracy(build(case, seed=0), case, 0, None, None, unknown)
    said = "the reference fails: ValueError: its reference finite_at_12 is not finite"
    assert unknown == [f"output_error: {said}"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("f.prepare = lambda *given: 5", "TypeError: f.prepare must return a dict of f's keywords, and returned 5"),
        (
            "f.prepare = lambda *given: {'tabel': None}",
            "TypeError: f.prepare must return a dict of f's keywords: it takes no 'tabel'; did you mean 'table'?",
        ),
        ("f.prepare = missing_key", "KeyError: f.prepare fails: 'scale' (mine.py:"),
        (
            "f.supports = lambda: None",
            "TypeError: f.supports(case), which returns a reason or None, fails: <lambda>() takes 0",
        ),
        (
            "f.supports = lambda case: case.seq_len % 64 == 0",
            "TypeError: f.supports(case) returned False: return None if the case can run, or a text that says why",
        ),
        (
            "f.reference = 7",
            "UsageError: its reference: 7 is no function: write f.reference = a function, or None",
        ),
    ],
)
def test_a_mistake_in_an_attribute_says_what_to_write(tmp_path: Path, lines: str, said: str) -> None:
    status, reason = outcome(case_with(tmp_path, f"{lines}\n"))
    assert (status, reason[: len(said)]) == ("error", said)


def test_a_reference_gets_prepared_values_by_a_prepare_of_its_own(tmp_path: Path) -> None:
    lines = "\n\ndef ref(q, k, v, table=None):\n    return attention(q, k, v, attn_mask=table + 0)\n\n\n"
    lines += "f.prepare, f.reference = make, ref\n"
    said = "TypeError: its reference ref fails: unsupported operand"
    assert outcome(case_with(tmp_path / "without", lines))[1].startswith(said)
    assert verify(case_with(tmp_path / "with", f"{lines}ref.prepare = f.prepare\n"), seed=0)["against"] == "ref"
