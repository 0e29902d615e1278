"""A look at a problem before it is measured: the memory that it needs, and what its output does not show."""

from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor

from harness.core.model.formatting import listed, size
from harness.core.model.sweep_axes import AXES
from harness.core.trial.sandbox import Answer

from .layer import problem_of
from .probe import probed, seeded_output
from .problem import Problem, Sizes

# Runs of a problem with more bytes of tensors take too long.
_MOST_BYTES = 2**28


def judge(file: str, sizes: Sizes, memory_limit: int) -> Answer:
    """Return a `warning` about a problem's output at some sizes, and a `refusal` for want of memory.

    Each may be empty. Bytes are known if torch's device meta can run the model.
    """
    problem, needed, refusal = problem_of(file), 0, ""
    with suppress(Exception):  # of any kind: it is the user's code
        probe = probed(problem, sizes)
        needed = sum(x.nbytes for x in (*probe.inputs, *probe.model.parameters(), probe.output))
    if sizes and 2 * needed > memory_limit:
        name = max(sizes, key=lambda name: (sizes[name] in probe.dimensions, sizes[name]))
        key = name if name in AXES else f"layer.{name}"
        refusal = (
            f"{file} needs at least {size(needed)} at its own sizes, and trials have {size(memory_limit)}: "
            f"give a smaller {key}=, or {key}={sizes[name]} to measure it as it is"
        )
    return {"refusal": refusal, "warning": "; ".join(_warnings(problem, sizes, needed))}


@torch.no_grad()
def _warnings(problem: Problem, sizes: Sizes, needed: int) -> Iterator[str]:
    """What the output does not show. Each call of the model draws its random numbers from the same seed."""
    if needed > _MOST_BYTES:
        yield f"its output is not looked at, as its tensors need {size(needed)}"
        return
    torch.manual_seed(1)  # another seed than that of the calls, which new values follow
    arguments, model = problem.inputs_at(sizes), problem.model_at(sizes).eval()
    output = seeded_output(model, arguments)
    if not output.isfinite().all():
        yield "its output has numbers that are not finite"
        return
    largest = output.abs().max()
    # In 16 bits, all formats tolerate 1e-2.
    if largest <= (problem.tolerance if output.dtype.itemsize > 2 else 1e-2):
        yield f"zeros would pass the tolerance of its format: the largest output is {largest:.2g}"
    unused = []
    inputs = [(f"input {place}", argument) for place, argument in enumerate(arguments, 1)]
    for name, tensor in (*inputs, *model.named_parameters()):
        if isinstance(tensor, Tensor) and tensor.is_floating_point():
            drawn = tensor.clone()
            tensor.copy_(torch.rand(tensor.shape))
            # Rounding changes less than this share of the norm.
            if (seeded_output(model, arguments) - output).norm() <= 1e-4 * output.norm():
                unused.append(name)
            tensor.copy_(drawn)
        elif isinstance(tensor, Tensor) and tensor.ndim == 1 < len(tensor):
            offsets_or_lengths = tensor.long()
            lengths = offsets_or_lengths.diff() if tensor[0] == 0 else offsets_or_lengths
            # A position is one more than the one before it, and a mask has ones.
            if 1 < lengths.min() == lengths.max():
                yield f"{name} has sequences of one length"
    if unused:
        yield f"its output does not depend on {listed(unused, 'tensor')}"
