"""`impls/descriptions.json` repeats what each layer's class allows and says, for `list`, which imports no torch.

`pytest --snapshot-update tests/impls/test_layer_source.py` writes that file anew.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import impls
from harness.cli.layers import described
from harness.core.layers import layer_lookup
from harness.core.layers.layer_files import read_layer_source
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import MASKS, MODES, Case
from harness.core.trial.described_layer import equation_of
from harness.core.trial.layer_protocol import accepts, is_causal, is_function, takes, unsupported_reason
from impls.registry import IMPLS

STORED = Path(impls.__path__[0], "descriptions.json")
# The sentence of `supports` that says what it returns.
RETURNS = re.compile(r"Return (why|None\b).*?(\.\s+|\.?$)", re.DOTALL)


def of_class(name: str) -> dict[str, Any]:
    """What `descriptions.json` holds of a layer, by its class."""
    layer_class = layer_lookup.load_class(name)
    # What depends on the device, the dtype and the sizes is said by `supports`, which the page quotes as `limits`.
    signature = {"__signature__": inspect.signature(layer_class)}
    anywhere = type(layer_class.__name__, (layer_class,), {"supports": None, **signature})

    def allows(**changed: Any) -> bool:
        return unsupported_reason(anywhere, Case(name, 64, 64, 4, **changed)) is None

    modes = [mode for mode in MODES if allows(mode=mode)]
    takes_source = allows(mode=modes[0], kv_len=64) if is_function(layer_class) else accepts(layer_class, "source")
    return {
        "equation": next(filter(None, map(equation_of, docstrings(name))), ""),
        "modes": modes,
        "masks": [mask for mask in MASKS if allows(mode=modes[0], mask=mask)],
        "takes": ["kv_len"] * takes_source + ["num_kv_heads"] * takes(layer_class, "num_kv_heads"),
        "causal": is_causal(layer_class),
        "limits": RETURNS.sub("", " ".join((getattr(layer_class, "supports", None).__doc__ or "").split()), count=1),
    }


def docstrings(name: str) -> Iterator[str]:
    """Those of a layer's class or function, of its module and base classes, and of its reference."""
    for layer_class in (layer_lookup.load_class(name), layer_lookup.load_reference(name)):
        owners = [layer_class.function] if is_function(layer_class) else list(layer_class.__mro__)
        yield inspect.getdoc(owners[0]) or ""
        yield sys.modules[owners[0].__module__].__doc__ or ""
        for base in owners[1:]:
            if base.__module__.startswith("impls."):
                yield inspect.cleandoc(base.__doc__ or "")


def test_the_stored_descriptions_are_those_of_the_classes(pytestconfig: pytest.Config) -> None:
    found = {entry.target: of_class(name) for name, entry in IMPLS.items()}
    if pytestconfig.getoption("update_snapshots", default=False):
        STORED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(STORED.read_text(encoding="utf-8")) == found


@pytest.mark.parametrize("name", IMPLS)
def test_every_layer_has_an_equation_and_a_place(name: str) -> None:
    page = described(IMPLS[name])
    assert "=" in page["equation"] or "softmax" in page["equation"]
    file, _, number = page["file"].rpartition(":")
    line = (STORED.parents[1] / file).read_text().splitlines()[int(number) - 1]
    assert line.split()[1].startswith(page["target"].partition(":")[2])


def test_a_layer_without_a_description_names_the_command_that_adds_it() -> None:
    with pytest.raises(UsageError, match=r"descriptions\.json lacks impls\.rnn:New: .* --snapshot-update` adds it"):
        read_layer_source("impls.rnn:New")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("attention.fused", "CUDA's fused kernels do not support float64; the CPU's kernel does."),
        ("attention.fused.efficient", "CUDA only, no float64; bfloat16 needs compute capability 8.0."),
        ("sdpa.fused", "CUDA's fused kernels do not support float64; the CPU's kernel does."),
        ("attention.fused.math", ""),
        ("rnn.elman", ""),
    ],
)
def test_the_limits_are_those_that_supports_documents(name: str, said: str) -> None:
    assert read_layer_source(IMPLS[name].target)["limits"] == said
