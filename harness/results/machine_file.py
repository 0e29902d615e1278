"""The typed model of a run's `machine.json`: what is used of a machine's description, within bounds.

`harness.machine.describe_machine` makes the description. Other names in the file have no effect.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, create_model

from harness.file_validation import Damaged, OpenModel, checked

_Text = Annotated[str, Field(max_length=4000)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[FiniteFloat, Field(ge=0)]
_Rate = Annotated[FiniteFloat, Field(gt=0)]
_Texts = dict[_Text, _Text | None]


def _part(**types: Any) -> type[OpenModel]:
    """An object whose entries have these types. Each may be missing or null."""
    entries: Any = {name: (kind | None, None) for name, kind in types.items()}
    return create_model("_Part", __base__=OpenModel, **entries)


def _texts(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, _Text)


_Whole = Annotated[int, Field(gt=-(2**63), lt=2**63)]
_STATE = dict[_Text, _Text | bool | _Whole | FiniteFloat | None]
_CALIBRATION = create_model(
    "_Calibration",
    __base__=_part(
        **_texts("verdict"),
        noise_floor=_Amount,
        best_probe_s=_Rate,
        sustained_flops_per_s=dict[_Text, _Rate],
        advice=list[_part(**_texts("level", "text"))],  # type: ignore[misc]
    ),
    device=(_Text, ...),
    threads=(_Count, ...),
    bandwidth=(_part(bandwidth_bytes_per_s=_Rate, cache_bytes=_Count, buffer_bytes=_Count), ...),
    peak_flops_per_s=(dict[_Text, _Rate], ...),
)
_MACHINE = _part(
    **_texts("host", "kernel", "libc", "python", "project_commit", "user_commit", "calibration_note"),
    **dict.fromkeys(("libraries", "packages", "environment", "environments"), _Texts),
    cpu=_part(model=_Text, threads=_Count, usable=_Count),
    memory_bytes=_Count,
    torch=_part(
        **_texts("version", "cuda", "cudnn", "triton", "gpu", "cpu_capability"),
        gpu_states=dict[_Text, _STATE],
        gpu_state=_STATE,
    ),
    calibration=_CALIBRATION,
    layers=dict[_Text, _Texts],
)


def known_machine(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a machine's description says, and why each entry that does not fit is left out."""
    machine: dict[str, Any] = {}
    damages = []
    for name, value in content.items():
        try:
            machine |= checked(_MACHINE, {name: value}).model_dump(exclude_unset=True)
        except Damaged as damage:
            damages.append(f"{damage}, left out")
    return machine, damages
