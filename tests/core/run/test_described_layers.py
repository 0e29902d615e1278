"""What trials find out about layers before anything is measured, and how many trials that takes."""

from typing import Any, cast

import pytest

from harness.core.config import compose
from harness.core.layers.layer_lookup import Layer
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome
from harness.core.run.session import DescribedLayers

DESCRIBED = vars(Layer(has_heads=True, options={"window": "128"}))


class Described:
    """An executor that answers with this description, and counts the trials. `env=small` has a layer without heads."""

    environments: tuple[str, ...] = ("default",)
    trials = 0

    def ask(self, purpose: str, case: Case) -> TrialOutcome:
        assert purpose == "describe"
        self.trials += 1
        return TrialOutcome("ok", values={**DESCRIBED, "has_heads": case.env != "small"})


def layers_of(executor: Any) -> DescribedLayers:
    return DescribedLayers(cast(Executor, executor))


def test_one_trial_describes_the_traits_and_the_options_of_a_layer() -> None:
    executor = Described()
    layers = layers_of(executor)
    assert layers.layer("their:Layer").has_heads
    assert layers.within("their:Layer").options == {"window": "128"}
    assert layers.within("their:Layer").own_axes is None
    case = Case("their:Layer", 8, 8, 1, options="window=128")
    assert layers.without_default_options([case], {}) == [Case("their:Layer", 8, 8, 1)]
    assert executor.trials == 1


def test_a_registered_layer_is_known_without_a_trial() -> None:
    executor = Described()
    assert not layers_of(executor).layer("rnn.elman").has_heads
    assert executor.trials == 0


def test_a_layer_of_other_traits_in_another_environment_is_refused() -> None:
    executor = Described()
    executor.environments = ("default", "small")
    with pytest.raises(UsageError, match="other heads in env=small than in env=default: sweep each environment by"):
        layers_of(executor).layer("their:Layer")


def test_own_axes_are_those_of_the_environment_in_which_the_layer_is_measured() -> None:
    class InOne(Described):
        environments = ("theirs",)

        def ask(self, purpose: str, case: Case) -> TrialOutcome:
            if case.env != "theirs":
                return TrialOutcome("error", "No module named 'their'")
            options = {"window": "128"} if case.impl == "their:Window" else {}
            return TrialOutcome("ok", values={**DESCRIBED, "options": options, "own_axes": '{"window": ["w", 128]}'})

    config = compose(["impl=their:Window,their:Layer", "layer.window=64,128"])
    assert layers_of(InOne()).lacked(config) == {"window": ["their:Layer"]}


def test_an_option_that_a_commit_does_not_know_yet_is_left_to_its_trials() -> None:
    config = compose(["impl=their:Layer", "layer.state=64"])
    assert layers_of(Described()).lacked(config, is_strict=False) == {}
    with pytest.raises(UsageError, match="their:Layer has no option 'state'"):
        layers_of(Described()).lacked(config)
