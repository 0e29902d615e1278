"""Verify a layer before it is timed: the outputs, gradients, mask and decoding of a small case, beside float64."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from harness.core.layers import layer_lookup
from harness.core.model.layer_options import options_of
from harness.core.model.own_axes import declared_axes
from harness.core.model.sweep_axes import EQUAL, Case
from impls.attention.reference import softmax_attention

from . import layer_inputs, layer_protocol, result_checks, reuse_between_calls, workload
from .compilation import compilations
from .counts.flops import watched_call
from .device import cast_layer, fill_tensors, has_drawn, reference_device, seed_draws, to_float64, uncompiled_calls
from .function_layer import FunctionLayer, is_usual_reference, uncompiled
from .result_checks import WrongResult, check_error, check_reference, gradient_pairs, in_float64, leaves_of
from .sandbox import Answer
from .workload import Workload, build

# Tokens change from every place on up to this length, then from every tile on and from a few other places.
_ALL_PLACES, _TILE = 24, 32
# What changes of the inputs: views of them, and how much of each. With it comes what selects the outputs to compare.
_Hidden = list[tuple[Tensor, Tensor | float]]
_Change = tuple[_Hidden, Callable[[Tensor], Tensor]]


def check_mask(case: Case, work: Workload, seed: int, limit: float) -> None:
    """Verify the mask without a reference: changing hidden tokens must not change any visible output.

    Under a causal mask, all tokens from a place on change, for each place. Of a long input these are the first token of
    each tile of a kernel, one inside a tile, the second token and the last. Padding is hidden from all real tokens.
    Without a mask, nothing is checked. Raises WrongResult if an output changes by more than `limit` of its norm.
    """
    source_len = layer_protocol.kv_len(work.layer, case)
    is_chunk = layer_protocol.sees_a_chunk(work.layer, case)
    if case.mask == "causal" and case.seq_len > 1 and (is_chunk or not case.kv_len):
        letters, n = ("n",) if source_len else ("n", "m"), case.seq_len
        dims = layer_protocol.output_dims(work.layer, case)
        if "n" not in dims:  # one token, which comes after all others
            return
        at, changes = dims.index("n"), []
        places = range(1, n) if n <= _ALL_PLACES else {1, (n // 2 - 1) | 1, n - 1, *range(_TILE, n, _TILE)}
        for seen in places:
            hidden = _of_tokens(work, letters, seen)
            if is_chunk:
                hidden += _of_tokens(work, ("m",), seen + case.kv_len - n)
            changes.append((hidden, partial(torch.narrow, dim=at, start=0, length=seen)))
        _check_unchanged(work, changes, seed, limit, "it sees later tokens that the mask hides: {}")
    elif case.mask == "padding":
        padding = ~workload.real_tokens(case, source_len or case.seq_len).to(work.x.device)
        counted = partial(result_checks.without_padding, real=workload.counted_tokens(work.layer, case))
        hidden = _of_tokens(work, ("m",) if source_len else ("n", "m"), padding=padding)
        _check_unchanged(work, [(hidden, counted)], seed, limit, "it sees padding that the mask hides: {}")


def _of_tokens(work: Workload, letters: tuple[str, ...], start: int = 0, padding: Tensor | None = None) -> _Hidden:
    """Views of the inputs along tokens, from token `start` on, and how much of each changes: 1, or `padding`."""
    found = []
    for tensor, one in zip(work.inputs, work.described, strict=True):
        at = one.dimension(*letters)
        if at is None or not one.is_free or (padding is not None and "b" not in one.shape):
            continue
        changed = 1.0 if padding is None else workload.along_tokens(padding, one.shape).to(tensor)
        found.append((tensor.narrow(at, start, tensor.shape[at] - start), changed))
    return found


# They draw until a number fits their arguments' values. So a changed value moves the draws of all elements after it.
_REJECT = "aten::poisson aten::binomial aten::_standard_gamma aten::_sample_dirichlet"


def _check_unchanged(work: Workload, changes: Iterable[_Change], seed: int, limit: float, reason: str) -> None:
    """Make each change, and check that the outputs that must not follow it stay the same.

    A view changes by a factor of random numbers: a normalisation would remove a change that is the same in all
    channels. `reason` may contain `{}` for the error. A layer passes if values decide how much it draws.
    """
    kept = [tensor.detach().clone() for tensor in work.inputs]
    output_after = partial(_output_after, work, kept, workload.copied_state(work.layer), seed)
    before = output_after([])
    for hidden, seen in changes:
        try:
            check_error("its output", seen(output_after(hidden)), seen(before), limit)
        except WrongResult as error:
            if watched_call(work.forward)[1].intersection(_REJECT.split()):
                return
            check_error("with the same input again, its output", seen(output_after([])), seen(before), limit)
            raise WrongResult(reason.format(error)) from None


def _output_after(work: Workload, kept: list[Tensor], state: dict[str, Any], seed: int, hidden: _Hidden) -> Tensor:
    """The output in float64 after a change of the inputs. A layer may change them and its buffers: all are restored."""
    with torch.no_grad():
        for view, changed in hidden:
            view += changed * torch.randn_like(view)
    seed_draws(seed)
    y = to_float64(work.forward())
    fill_tensors(work.inputs, kept)
    workload.copy_weights(state, work.layer)
    return y


def check_batch(case: Case, seed: int, limit: float) -> None:
    """Verify that no sequence sees another one of its batch in evaluation. A case of one sequence gets a second one.

    Changing the first, the middle or the last one must not change the outputs of the others. This holds in a batch of
    three, too: in one of two, what sees the next but one sees itself. The layer runs uncompiled, without a mask. It
    passes if it takes neither batch, with one length. Raises WrongResult as `check_mask`.
    """
    layer_class = layer_lookup.load_class(case.impl)
    is_step = case.mode == "decode" and layer_protocol.is_function(layer_class)
    reason = "it sees other sequences of the batch; is batch_first missing?"
    for batch_size in {max(case.batch_size, 2), 3}:
        case = replace(case, mode="decode" if is_step else "forward", batch_size=batch_size, mask="none", lengths=EQUAL)
        dims = layer_protocol.output_dims(layer_class, case)
        if "b" not in dims or layer_protocol.unsupported_reason(layer_class, case) is not None:
            continue
        with uncompiled_calls(), torch.no_grad():
            try:
                work = build(case, seed)
                if work.forward().shape != workload.output_shape(work.layer, case):
                    continue
            except Exception:  # of any kind, because a kernel compiler defines its own exceptions
                continue
            free = [(x, one.dimension("b")) for x, one in zip(work.inputs, work.described, strict=True) if one.is_free]
            changes = []
            for changed in {0, batch_size // 2, batch_size - 1}:
                hidden: _Hidden = [(x.narrow(at, changed, 1), 1.0) for x, at in free if at is not None]
                rest = torch.tensor([place for place in range(batch_size) if place != changed], device=work.x.device)
                changes.append((hidden, partial(torch.index_select, dim=dims.index("b"), index=rest)))
            _check_unchanged(work, changes, seed, limit, reason)


# Number of generated tokens, and size of their vocabulary.
_GENERATED, _VOCABULARY = 16, 31


def check_decoding(case: Case, work: Workload, reference: nn.Module, seed: int, limit: float) -> Answer:
    """Verify decoding: the outputs computed step by step must equal those computed all at once.

    This is checked for given tokens, for those after a `prefill` of the first half, and for tokens that the layer
    generates itself. In greedy generation, each token is the most likely one after those before it, so an error in one
    step changes all later tokens.

    Raises WrongResult if decoding is incorrect. Return `output_error` over all n steps, and `generated`, the number of
    generated tokens.
    """
    layer, x, source = work.layer, work.x, work.source
    expected = _all_at_once(reference, case, x, source)
    decoded, _ = decode(layer, x, workload.start_decoding(layer, case, source))
    errors = [check_error("what it decodes step by step", decoded, expected, limit)]
    token = [tensor.clone() for tensor in work.varying]
    last = work.call().clone()  # the timed call: the cache is prefilled, and only the last step runs
    errors.append(check_error("the last token after a prefill", last, expected[:, -1], limit))
    fill_tensors(work.varying, token)
    errors.append(check_error("the same step taken again", work.call(), expected[:, -1], limit))
    if hasattr(layer, "prefill") and (half := case.seq_len // 2):
        state = layer.prefill(x[:, :half].clone(), workload.start_decoding(layer, case, source))  # type: ignore[operator]
        decoded, _ = decode(layer, x[:, half:], state)
        errors.append(check_error("steps after a prefill", decoded, expected[:, half:], limit))
    chosen, outputs = generate(layer, case, source, seed)
    expected = _all_at_once(reference, case, chosen, source)
    errors.append(check_error("what it generates step by step", outputs, expected, limit))
    return {"output_error": max(errors), "generated": chosen.shape[1]}


def decode(layer: nn.Module, x: Tensor, state: Any) -> tuple[Tensor, Any]:
    """The outputs (b, n, d) of single steps over the tokens of x (b, n, d), and the state after them.

    Steps are on copies: a layer may change its token, and may return memory that the next step overwrites.
    """
    outputs = []
    for x_t in x.unbind(1):
        y_t, state = workload.step_once(layer, x_t.clone(), state)
        outputs.append(y_t.clone())
    return torch.stack(outputs, dim=1), state


def generate(layer: nn.Module, case: Case, source: Tensor | None, seed: int) -> tuple[Tensor, Tensor]:
    """Generate greedily. Return `(inputs, outputs)`, both (b, m, d), for m tokens of a small random vocabulary.

    The next input is the embedding of the token whose vector is most similar to the output.
    """
    draws = torch.Generator().manual_seed(seed)
    vocabulary = torch.randn(_VOCABULARY, case.d_model, generator=draws)
    vocabulary = vocabulary.to(case.device, getattr(torch, case.dtype))
    token = vocabulary[:1].expand(case.batch_size, -1)  # (b, d)
    state = workload.start_decoding(layer, case, source)
    inputs, outputs = [], []
    for _ in range(min(_GENERATED, case.seq_len)):
        y, state = decode(layer, token[:, None], state)
        inputs.append(token)
        outputs.append(y)
        token = vocabulary[(y[:, 0].to(vocabulary) @ vocabulary.t()).argmax(-1)]
    return torch.stack(inputs, dim=1), torch.cat(outputs, dim=1)


def _all_at_once(reference: nn.Module, case: Case, x: Tensor, source: Tensor | None) -> Tensor:
    """Return the reference's output (b, n, d), with no token seeing a later one."""
    of_it = replace(case, seq_len=x.shape[1], mode="forward", mask="causal")
    with in_float64(case):
        return expected_output(reference, of_it, [to_float64(one) for one in (x, source) if one is not None])


_HINT = " (a layer that rounds more declares `allowed_error`)"


def verify(case: Case, seed: int) -> Answer:
    """Errors of the case as returned by `_verify`, or of a similar one if the layer refuses the case.

    `verified` is the case that was verified, and `compiled` whether anything was compiled. Before a case in half
    precision, its twin in float32 is verified, because rounding could hide an incorrect token.
    """
    case = layer_protocol.case_to_verify(layer_lookup.load_class(case.impl), case)
    try:
        if case.dtype in result_checks.HALF:
            _verify_twin(replace(case, dtype="float32"), seed)
        errors = result_checks.with_either_draws(_verify, case, seed)
        return {**errors, "verified": case.as_dict(), "compiled": compilations() > 0}
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        if layer_lookup.is_foreign(case.impl) and not hasattr(error, "__notes__"):
            error.add_note(_note(case, seed))
        raise


def _note(case: Case, seed: int) -> str:
    """What to write if the layer fails, and runs at multiples of a power of two or in the other layout; else empty."""
    layer_class: Any = layer_lookup.load_class(case.impl)
    hint = getattr(layer_class, "layout_hint", "")

    def runs(length: int) -> bool:
        return _output(replace(case, seq_len=length), seed) is not None

    if not runs(case.seq_len):
        for tile in (2**power for power in range(1, 10)):
            if case.seq_len % tile and runs(tile) and runs(3 * tile) and not runs(3 * tile // 2):
                reason = f"as it runs at n={tile} and {3 * tile} and fails at n={case.seq_len}"
                supports = f'supports = lambda case: "n is no multiple of {tile}" if case.seq_len % {tile} else None'
                return f"If n must be a multiple, {reason}, write {case.impl.rpartition(':')[2]}.{supports}"
    if not hint or 0 < case.num_kv_heads < case.num_heads:  # it may lack heads of k and v
        return ""
    letters = layer_protocol.letters_at(layer_class, case)
    inputs = [layer_inputs.draw(one, case, *letters).transpose(1, 2).contiguous() for one in layer_class.inputs]
    y = _output(case, seed, inputs)
    return hint if y is not None and y.shape == inputs[0].shape else ""


def _output(case: Case, seed: int, inputs: list[Tensor] | None = None) -> Tensor | None:
    """The output of a forward pass; None if it fails."""
    try:
        return build(case, seed, inputs=inputs).forward()
    except Exception:  # of any kind, because a kernel compiler defines its own exceptions
        return None


def _verify_twin(twin: Case, seed: int) -> None:
    """Verify the twin in float32, as `_verify` does. Products in half precision explain errors there too."""
    if layer_protocol.unsupported_reason(layer_lookup.load_class(twin.impl), twin) is not None:
        return
    with torch.enable_grad():  # building the twin may disable it
        try:
            work = build(twin, seed)
            few_bits = result_checks.limit_of_products(work.layer, watched_call(work.forward)[0], twin.d_model)
            result_checks.with_either_draws(_verify, twin, seed, few_bits)
        except WrongResult as error:
            error.args = (f"in float32: {error}",)
            raise
        except Exception:  # of any kind, as of a kernel that has half precision only
            if not layer_lookup.is_foreign(twin.impl):
                raise


def _verify(case: Case, seed: int, least_limit: float = 0.0) -> Answer:
    """Errors of the outputs and of every gradient, relative to the reference's norm.

    Gradients are compared only if the mode has a backward pass. The reference is the layer's own specification, or else
    itself in float64, which shows instability and garbage, but no wrong formula. In `decode`, the outputs of steps are
    compared with the reference's output for all tokens at once. Outputs at padding are ignored. Raises WrongResult.
    """
    work = build(case, seed)
    reference, against = reference_of(case, work.layer, seed)
    has_reference = against != layer_lookup.ITSELF
    if has_reference:
        result_checks.move_neutral_weights(work.layer, reference)
    state = workload.copied_state(work.layer)
    case = layer_protocol.as_masked(case, work.layer)
    limits = result_checks.limits(case, work.layer, has_reference)
    limit, of_gradients = (max(one, least_limit) for one in limits)
    result: Answer = {"against": against, "tolerance": limit}
    if layer_protocol.decodes_in_steps(work.layer, case):
        result |= check_decoding(case, work, reference, seed, limit)
        reuse_between_calls.check_operation_counts(work, seed)
        check_batch(case, seed, limit)
        return result
    inputs = [to_float64(tensor) for tensor in work.inputs]  # copied first: a layer may change its input
    for tensor, one in zip(inputs, work.described, strict=True):
        tensor.requires_grad_(case.trains and one.grad)
    seed_draws(seed)
    shape, dtype = workload.output_shape(work.layer, case), layer_protocol.output_dtype(work.layer, case.dtype)
    y = result_checks.check_output(work.forward(), work.x, shape, dtype, work.layer)
    draws = has_drawn(seed, case.device)

    def expected_of(module: nn.Module, inputs: list[Tensor]) -> Tensor:
        seed_draws(seed)  # the reference must draw the same random numbers, as for dropout
        with in_float64(case, draws):
            return expected_output(module, case, inputs)

    try:
        expected = expected_of(reference, inputs)
    except Exception as error:  # of any kind, because a kernel compiler defines its own exceptions
        if has_reference:
            error.add_note(f"its reference {against} fails:")
            raise
        # A user's layer may contain a float32 constant. That is no error, but only finiteness can then be checked.
        if not y.isfinite().all():
            raise WrongResult("its output is not finite") from error
        reuse_between_calls.check_operation_counts(work, seed)
        # It may compute with few bits, and round by all values of a batch.
        limit = max(limit, result_checks.MOST)
        check_mask(case, work, seed, limit)
        check_batch(case, seed, limit)
        return result | {"against": "nothing: it does not run in float64", "output_error": None}
    real = workload.counted_tokens(work.layer, case)
    if has_reference:
        check_reference(against, expected, y, real)
    wanted, got = (result_checks.without_padding(one, real) for one in (expected, y))
    try:
        result["output_error"] = check_error("output", got, wanted, limit, hint=_HINT)
    except WrongResult as error:
        if against != softmax_attention.__name__:
            raise
        is_transposed = result_checks.is_of_other_layout(case, inputs, y, limit)
        raise WrongResult(f"{error}, {_beside_softmax(case, work.layer, is_transposed)}") from None
    if work.gradient is not None:
        work.forget()
        y.backward(work.gradient)
        tolerated = of_gradients
        if layer_protocol.allowed_error(work.layer):
            of_products = result_checks.limit_of_products(work.layer, watched_call(work.forward)[0], case.d_model)
            tolerated = max(of_gradients, of_products)
            # Unless few bits explain the error of the output, the gradients are those of an approximation.
            if has_reference and result["output_error"] > of_products:
                reference, _ = reference_of(case, work.layer, seed, itself=True)
                expected = expected_of(reference, inputs)
        with in_float64(case, draws):  # a checkpointed part draws again
            expected.backward(to_float64(work.gradient))
        leaves = leaves_of(work.layer, work.described, work.inputs)
        wanted_leaves = leaves_of(reference, work.described, inputs)
        pairs = gradient_pairs(leaves, wanted_leaves)
        if not pairs:
            raise workload.Unsupported("its backward pass passes no gradient to any input or weight")
        if has_reference:
            for name, got, want in pairs:
                check_reference(f"{against}'s gradient of {name}", want, got)
        if case.mode == "backward":
            pairs += reuse_between_calls.repeated_gradient_pairs(work, state, leaves, wanted_leaves)
        largest = result_checks.largest_norm(want for _, _, want in pairs)
        errors = (check_error(f"gradient of {name}", got, want, tolerated, largest, _HINT) for name, got, want in pairs)
        result |= {"gradient_error": max(errors), "gradient_tolerance": tolerated}
    reuse_between_calls.check_operation_counts(work, seed)
    # These checks come last because they change the input, which the graph of `backward` depends on.
    another, _ = reference_of(case, work.layer, seed)  # a new reference, which cannot have kept a result either
    if has_reference:
        result_checks.move_neutral_weights(work.layer, another)
    reuse_between_calls.check_second_input(work, partial(expected_of, another), real, seed, limit)
    check_mask(case, work, seed, min(limit, of_gradients))  # an approximation may not look at hidden tokens
    check_batch(case, seed, limit)
    return result


def _beside_softmax(case: Case, layer: nn.Module, is_transposed: bool) -> str:
    """What to write for a function that computes something else than softmax attention of its q, k and v."""
    name = case.impl.rpartition(":")[2]
    other = result_checks.OTHER_LAYOUT.get(str(layer.layout))
    if other and is_transposed:
        shape = f"({', '.join(other[:3])}, head_dim)"
        what = f"compared with softmax attention. It is softmax attention of q, k, v in {shape}"
        return f'{what}: write {name}.layout = "{other}"'
    against = "softmax attention"
    if case.mask == "causal" and case.kv_len:
        against = "softmax attention whose last query sees all keys (torch's causal_lower_right, and not is_causal)"
    return (
        f"compared with {against}. If {name} computes something else, write {name}.reference = another function, or "
        f"None. If it is an approximation, write {name}.allowed_error = 0.1"
    )


_WAVES = 4  # that `project_reference` multiplies the output by


def project_reference(case: Case, seed: int) -> Answer:
    """Return `projections` of the reference's output in float64: its norm, and its products with a few waves.

    Two processes that compute the same output return the same numbers, up to rounding. The layer is never called.
    """
    case = replace(case, mode="forward", dtype="float32")
    work = build(layer_protocol.case_to_verify(layer_lookup.load_class(case.impl), case), seed)
    reference, _ = reference_of(case, work.layer, seed)
    seed_draws(seed)
    with torch.no_grad(), in_float64(case):
        y = expected_output(reference, case, [to_float64(tensor) for tensor in work.inputs])
    y = result_checks.without_padding(y, workload.counted_tokens(work.layer, case)).flatten().cpu()
    waves = torch.outer(torch.arange(_WAVES), torch.arange(len(y), dtype=torch.float64)).cos()
    return {"projections": [float(y.norm()), *(waves @ y).tolist()]}


def reference_class_of(case: Case, layer_class: type) -> type | None:
    """The class that defines what the layer must compute in this case; None if only itself in float64 does."""
    found = layer_lookup.load_reference(case.impl)
    if found is None or not is_usual_reference(layer_class, found):
        return found
    # An option may change what a function computes. Whoever declares it as an axis can declare a reference as well.
    return None if options_of(case.options).keys() - declared_axes(layer_class).keys() else found


def reference_of(case: Case, layer: nn.Module, seed: int, itself: bool = False) -> tuple[nn.Module, str]:
    """The reference in float64 with the layer's weights, and its name. With `itself`, the layer is its own.

    Its constructor draws what that of the layer drew, which may be in no state.
    """
    reference_class = None if itself else reference_class_of(case, type(layer))
    options = layer_lookup.reference_options(case.impl)
    if reference_class is None:
        against = layer_lookup.ITSELF
        reference_class = uncompiled(layer_lookup.load_class(case.impl))
        options = layer_lookup.build_options(case.impl)
    else:
        against = reference_class.__name__
    torch.default_generator.manual_seed(seed)
    reference = workload.build_layer(reference_class, case, **options).to(reference_device(case.device))
    reference = cast_layer(reference, torch.float64)
    if not isinstance(reference, FunctionLayer) or reference.state_dict():  # a function has no weights
        state = layer.state_dict()  # a module may keep more than tensors in it, and their versions beside it
        state.update((name, to_float64(value)) for name, value in state.items() if isinstance(value, Tensor))
        reference.load_state_dict(state)
    if layer_protocol.is_as_causal(reference, layer):
        reference.causal = True  # type: ignore[assignment]
    reference.train(layer.training)
    return reference, against


def expected_output(reference: nn.Module, case: Case, inputs: list[Tensor]) -> Tensor:
    """The reference's output for the inputs."""
    return workload.forward_pass(replace(case, device=reference_device(case.device)), reference, inputs)[0]()
