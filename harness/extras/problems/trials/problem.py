"""What runs a problem in a trial: the interface of all formats."""

import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.layer_inputs import Input

# The sizes of a problem by name.
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Shapes:
    """The inputs and the output as formulas. The sizes in `fixed` keep the file's values, each with the reason."""

    inputs: tuple[Input, ...]
    output: tuple[str, ...]
    fixed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """A problem, or a solution of it. Without one, the problem's own model is measured."""

    file: str
    solution: str = ""
    # The largest error that the programs of this format tolerate in float32.
    tolerance = 1e-4

    @property
    def source(self) -> str:
        """The file of what is measured."""
        return self.solution or self.file

    @property
    def model(self) -> str:
        """The name of what is measured."""
        raise NotImplementedError

    @property
    def module_names(self) -> list[str]:
        """The modules whose files hold the code of the layer, first that of the model."""
        raise NotImplementedError

    def model_class(self, sizes: Sizes) -> Any:
        """The class or function that is measured."""
        raise NotImplementedError

    def model_at(self, sizes: Sizes) -> nn.Module:
        """A new model."""
        raise NotImplementedError

    def inputs_at(self, sizes: Sizes) -> list[Any]:
        """The arguments of a call, drawn anew."""
        raise NotImplementedError

    def shapes(self, sizes: Sizes, letters: Mapping[str, str]) -> Shapes:
        """The shapes at these sizes of the file, in the letters of its sizes."""
        raise NotImplementedError

    def refusal(self, case: Case) -> str | None:
        """Why the case cannot run; None if it can."""
        return None


def new_module(file: Path, text: str) -> ModuleType:
    """An empty module that stands for the file, and for this text of it or about it.

    The digests of a layer's files are those of its modules.
    """
    module = ModuleType(f"_own_{zlib.crc32(text.encode()):x}_{file.stem}")
    module.__file__ = str(file.absolute())
    sys.modules[module.__name__] = module
    return module
