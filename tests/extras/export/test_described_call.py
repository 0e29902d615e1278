"""How a trial describes a layer to a script, and what no script can hold."""

import pytest
from core.trial.test_packed_sequences import case_of as case_of_lengths
from own_layer.test_factories import case_of as case_of_factory
from own_layer.test_functions import case_of as case_of_function

from harness.core.trial.workload import Unsupported
from harness.extras.export.trials import describe_call


def test_a_script_compares_the_gradients_of_an_approximation_with_its_own() -> None:
    forward, training = (describe_call(case_of_function("coarse", mode=mode)) for mode in ("forward", "train"))
    assert (forward["tolerance"], forward["reference"] is None) == (0.3, False)
    assert (training["gradient_tolerance"] < 0.01, training["reference"]) == (True, None)


def test_a_script_cannot_hold_a_padded_batch() -> None:
    with pytest.raises(Unsupported, match="a script has no padded batch: export a case of lengths=equal"):
        describe_call(case_of_lengths("attention.fused"))


def test_a_script_of_a_factory_is_refused() -> None:
    with pytest.raises(Unsupported, match="a factory builds it"):
        describe_call(case_of_factory("near_3"))
