"""How long compiling may take is a setting of its own."""

import pytest

from harness.core.config import compose
from harness.core.model.errors import UsageError


def test_it_is_no_part_of_the_precision_and_has_a_default() -> None:
    config = compose(["precision=quick"])
    assert config.compile_timeout_s > config.precision.timeout_s


def test_it_can_be_set() -> None:
    assert compose(["compile_timeout_s=30"]).compile_timeout_s == 30


@pytest.mark.parametrize("value", ["0", "-1", "inf"])
def test_it_is_a_number_above_0(value: str) -> None:
    with pytest.raises(UsageError, match="compile_timeout_s"):
        compose([f"compile_timeout_s={value}"])
