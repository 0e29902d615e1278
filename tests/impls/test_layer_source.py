"""What a layer's source is read to allow is what the layer allows."""

import inspect

import pytest

from harness.cli.layers import described
from harness.core.layers import layer_lookup
from harness.core.layers.layer_source import read_layer_source
from harness.core.model.sweep_axes import MASKS, MODES, Case
from harness.core.trial.layer_protocol import takes, unsupported_reason
from impls.registry import IMPLS


@pytest.mark.parametrize("name", IMPLS)
def test_modes_masks_and_sizes_are_those_of_the_class(name: str) -> None:
    layer_class = layer_lookup.load_class(name)
    signature = {"__signature__": inspect.signature(layer_class)}
    # What depends on the device, the dtype and the sizes is said by `supports`, which the source's page quotes.
    layer_class = type(layer_class.__name__, (layer_class,), {"supports": None, **signature})
    source = read_layer_source(IMPLS[name].target)

    def allows(**changed: object) -> bool:
        at = {"kv_len": 64} if changed.pop("kv_len", 0) else {}
        changed = {"mode": source.modes[0], **changed}
        return unsupported_reason(layer_class, Case(name, 64, 64, 4, **at, **changed)) is None  # type: ignore[arg-type]

    assert source.modes == [mode for mode in MODES if allows(mode=mode)]
    if "needs_source" not in source.flags:
        assert source.masks == [mask for mask in MASKS if allows(mask=mask)]
        assert source.takes("kv_len") == allows(kv_len=64)
    assert source.takes("num_kv_heads") == takes(layer_class, "num_kv_heads")


@pytest.mark.parametrize("name", IMPLS)
def test_every_layer_has_an_equation(name: str) -> None:
    assert "=" in described(IMPLS[name])["equation"] or "softmax" in described(IMPLS[name])["equation"]


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
    assert read_layer_source(IMPLS[name].target).limits == said
