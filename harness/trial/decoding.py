"""Verify decoding: the outputs computed step by step must equal those computed all at once.

This is checked twice: for given tokens, and for tokens that the layer generates itself. In greedy generation, each
token is the most likely one after those before it, so an error in one step changes all later tokens.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from harness.case import Case
from harness.trial.build import Workload, start
from harness.trial.calls import step_once
from harness.trial.given import given
from harness.trial.relative import check
from harness.trial.second_input import fill

# Number of generated tokens, and size of their vocabulary.
_GENERATED = 16
_VOCABULARY = 31


def check_decoding(case: Case, work: Workload, reference: nn.Module, seed: int, limit: float) -> dict[str, Any]:
    """Verify decoding. Raises WrongResult if it is incorrect.

    Return `output_error` over all n steps, and `generated`, the number of generated tokens.
    """
    layer, x, source = work.layer, work.x, work.source
    expected = _all_at_once(reference, case, x, source)
    state, steps = start(layer, case, source), []
    for x_t in x.unbind(1):
        y_t, state = _step(layer, x_t, state)
        steps.append(y_t)
    worst = check("what it decodes step by step", torch.stack(steps, dim=1), expected, limit)
    token = [tensor.clone() for tensor in work.varying]
    last = work.call().clone()  # the timed call: the cache is prefilled, and only the last step runs
    worst = max(worst, check("the last token after a prefill", last, expected[:, -1], limit))
    fill(work.varying, token)
    again = work.call()
    worst = max(worst, check("the same step taken again", again, expected[:, -1], limit))
    chosen, outputs = generate(layer, case, source, seed)
    expected = _all_at_once(reference, case, chosen, source)
    worst = max(worst, check("what it generates step by step", outputs, expected, limit))
    return {"output_error": worst, "generated": chosen.shape[1]}


def _step(layer: nn.Module, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Take one step on copies: a layer may change its token, and may return memory that the next step overwrites."""
    y_t, state = step_once(layer, x_t.clone(), state)
    return y_t.clone(), state


def generate(layer: nn.Module, case: Case, source: Tensor | None, seed: int) -> tuple[Tensor, Tensor]:
    """Generate greedily. Return `(inputs, outputs)`, both (b, m, d), for m tokens of a small random vocabulary.

    The next input is the embedding of the token whose vector is most similar to the output.
    """
    draws = torch.Generator().manual_seed(seed)
    vocabulary = torch.randn(_VOCABULARY, case.d_model, generator=draws)
    vocabulary = vocabulary.to(case.device, getattr(torch, case.dtype))
    room = min(_GENERATED, case.seq_len)
    token = vocabulary[:1].expand(case.batch_size, -1)  # (b, d)
    state = start(layer, case, source)
    inputs, outputs = [], []
    for _ in range(room):
        y, state = _step(layer, token, state)
        inputs.append(token)
        outputs.append(y)
        token = vocabulary[(y.to(vocabulary) @ vocabulary.t()).argmax(-1)]
    return torch.stack(inputs, dim=1), torch.stack(outputs, dim=1)


def _all_at_once(reference: nn.Module, case: Case, x: Tensor, source: Tensor | None) -> Tensor:
    """Return the reference's output (b, n, d), with no token seeing a later one."""
    of_it = replace(case, seq_len=x.shape[1], mode="forward", mask="causal")
    x = x.to(torch.float64, copy=True)
    source = source.to(torch.float64, copy=True) if source is not None else None
    keywords = given(reference, of_it, source)
    prepare = getattr(reference, "prepare", None)
    return reference(x, **(keywords if prepare is None else prepare(x, **keywords)))
