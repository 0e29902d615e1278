"""What a layer claims of a case, and how the lengths of its sequences reach it."""

from json import dumps  # bound before a layer may replace it
from typing import Any

from harness import layer_lookup, own_axes
from harness.sequence_lengths import as_text, claimed_flops, is_summed, real_lengths
from harness.sweep_axes import Case
from harness.trial.packed_sequences import passed_as


def claimed_work(case: Case) -> dict[str, Any]:
    """The layer's claims, and the FLOPs from its own formula, which holds for one sequence.

    A padded batch is b sequences of n tokens. Packed sequences count with their own lengths, as Σ nᵢ². Raises
    UsageError for an unparsable claim.
    """
    own = layer_lookup.is_foreign(case.impl)
    layer = layer_lookup.load_class(case.impl)
    of_it = layer_lookup.claims_of_class(layer, case) if own else layer_lookup.claims_of_impl(case.impl, case)
    formula = layer_lookup.work_of(of_it, case.mode)
    text = own_axes.axes_text(layer)
    # With a source, the work depends on two lengths, but claims know only one.
    if case.kv_len or own_axes.unclaimed_options(case.impl, text, case.options):
        formula = None
    formula = formula.at(own_axes.own_size(text, case.options)) if formula else None
    summed = is_summed(passed_as(layer, case))
    lengths = real_lengths(case, case.seq_len) if summed else [case.seq_len] * case.batch_size
    work = claimed_flops(formula, lengths, case.d_model, case.num_heads) if formula else None
    stated = {name: str(claim) for name, claim in of_it.items()}
    claims = dumps(stated, ensure_ascii=False) if own and stated else None
    return {"flops_claimed": work, "claims": claims, "own_axes": text}


def lengths_facts(case: Case) -> dict[str, Any]:
    """How the lengths of the sequences reach the layer, and how many of the tokens are real."""
    way = passed_as(layer_lookup.load_class(case.impl), case)
    if way is None:
        return dict.fromkeys(("lengths_as", "real_tokens", "padding_share", "sequence_lengths"))
    lengths = real_lengths(case, case.seq_len)
    passed = sum(lengths) if is_summed(way) else case.batch_size * case.seq_len
    return {
        "lengths_as": way,
        "real_tokens": sum(lengths),
        "padding_share": 1 - sum(lengths) / passed,
        "sequence_lengths": as_text(lengths),
    }
