"""Weights in containers that the garbage collector does not look into, and in arrays of numpy."""

import weakref
from collections import UserDict, UserList, deque
from collections.abc import Sized
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.device import things_in

N, D, FLOAT = 16, 8, 4
# The product's matrix, and a table of 100 rows.
WEIGHT, TABLE = D * D * FLOAT, 100 * D * FLOAT
# Keeps tables alive that a layer refers to weakly. It is no part of a layer.
_ALIVE: list[Tensor] = []


@dataclass(slots=True)
class Slots:
    table: Tensor


class Holder(nn.Module):
    """Its subclasses hold a table in a container. The class itself has none."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model, bias=False)
        table = torch.ones(100, d_model)
        _ALIVE.append(table)
        self.held = self.hold(table)

    def hold(self, table: Tensor) -> Any:
        return None

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class InADeque(Holder):
    def hold(self, table: Tensor) -> Any:
        return deque([table])


class InAMappingProxy(Holder):
    def hold(self, table: Tensor) -> Any:
        return MappingProxyType({"table": table})


class InAUserDict(Holder):
    def hold(self, table: Tensor) -> Any:
        return UserDict(table=UserList([table]))


class InSlots(Holder):
    def hold(self, table: Tensor) -> Any:
        return Slots(table)


class InAScriptList(Holder):
    def hold(self, table: Tensor) -> Any:
        return torch._C.ScriptList([table])


class InAScriptDict(Holder):
    def hold(self, table: Tensor) -> Any:
        return torch._C.ScriptDict({"table": table})


class InAContextVariable(Holder):
    def hold(self, table: Tensor) -> Any:
        variable = ContextVar[Tensor]("table")
        variable.set(table)
        return variable


class InAWeakDictionary(Holder):
    def hold(self, table: Tensor) -> Any:
        return weakref.WeakValueDictionary(table=table)


class InAWeakSet(Holder):
    def hold(self, table: Tensor) -> Any:
        return weakref.WeakSet([table])


class AStorage(Holder):
    def hold(self, table: Tensor) -> Any:
        return table.untyped_storage()


class AnArray(Holder):
    def hold(self, table: Tensor) -> Any:
        return {"table": np.ones((100, D), np.float32)}


class AnArrayOfATensor(Holder):
    def hold(self, table: Tensor) -> Any:
        return table.numpy()


class AnArrayInBytes(Holder):
    def hold(self, table: Tensor) -> Any:
        return np.frombuffer(bytes(TABLE), np.float32)


class WindowsOfAnArray(Holder):
    """A hundred and one windows of a hundred numbers each, in two hundred numbers."""

    def hold(self, table: Tensor) -> Any:
        return np.lib.stride_tricks.sliding_window_view(np.ones(200, np.float32), 100)


class HalfOfAnArray(Holder):
    def hold(self, table: Tensor) -> Any:
        return np.ones((200, D), np.float32)[:100]


class AnArrayOfTensors(Holder):
    """Of two pointers."""

    def hold(self, table: Tensor) -> Any:
        array = np.empty(2, object)
        array[0] = table
        return array


class AnArrayOfItsWeight(Holder):
    def hold(self, table: Tensor) -> Any:
        return self.mix.weight.detach().numpy()


class EveryOutputInAScriptList(Holder):
    def hold(self, table: Tensor) -> Any:
        return torch._C.ScriptList([table])

    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x)
        self.held.append(y)
        return y


def facts(layer: type) -> dict[str, Any]:
    return collect_metrics(Case(f"{Path(__file__)}:{layer.__name__}", N, D, 1), seed=0)


KINDS = [InADeque, InAMappingProxy, InAUserDict, InSlots, InAScriptList, InAScriptDict, InAContextVariable]
KINDS += [InAWeakDictionary, InAWeakSet, AStorage, AnArray, AnArrayOfATensor, AnArrayInBytes]


@pytest.mark.parametrize(
    ("layer", "besides"),
    [
        (Holder, 0),
        *((kind, TABLE) for kind in KINDS),
        (WindowsOfAnArray, 200 * FLOAT),
        (HalfOfAnArray, 2 * TABLE),
        (AnArrayOfTensors, TABLE + 2 * 8),
        (AnArrayOfItsWeight, 0),
    ],
)
def test_weights_count_in_any_container_and_in_arrays(layer: type, besides: int) -> None:
    found = facts(layer)
    assert found["weights_bytes"] == WEIGHT + besides
    assert (found["first_call_bytes"], found["kept_bytes"]) == (0, 0)


def test_what_calls_keep_in_a_container_of_scripts_counts() -> None:
    assert facts(EveryOutputInAScriptList)["kept_bytes"] == N * D * FLOAT


def test_another_class_in_the_cache_of_an_abstract_one_is_no_part_of_the_layer() -> None:
    class Other(torch.nn.Module, Sized):
        table = torch.zeros(64)

        def __len__(self) -> int:
            return 1

    class Layer(torch.nn.Module, Sized):
        def __len__(self) -> int:
            return 1

    assert isinstance(Other(), Sized)
    assert not any(thing is Other.table for thing in things_in(Layer(), ModuleType))
