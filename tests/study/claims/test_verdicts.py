"""Claims, ours and somebody's own, and what becomes of them together."""

from dataclasses import replace

from study.laws.measured import attention, measured, verdict

from harness.study.claims.claims_table import COLUMNS, VERDICTS, claims_table, verdicts
from harness.study.laws.fitted_laws import fit_laws


def test_the_stated_work_of_somebodys_own_layer_is_held_against_the_count() -> None:
    of = measured("their:Layer", attention)
    assert verdicts(of, []) == []
    told = [replace(line, flops_claimed=line.flops) for line in of]
    assert verdict("work", told).verdict == "confirmed"
    wrong = [replace(line, flops_claimed=line.flops + 1) for line in of]
    assert verdict("work", wrong).verdict == "refuted"


def test_the_claims_in_the_rows_of_somebodys_own_layer_are_judged_as_ours_are() -> None:
    stated = '{"work": "8nd² + 4n²d", "depth": "n", "memory": "nd"}'
    of = measured("their:Layer", attention, memory=lambda n, d, h: 4 * n * n, depth=lambda n, d, h: n, claims=stated)
    found = {one.quantity: (one.claimed, one.verdict) for one in verdicts(of, [])}
    time = found.pop("time")
    assert time[1] == "undetermined"
    assert found == {
        "work": ("8nd² + 4n²d", "confirmed"),
        "memory": ("O(nd)", "refuted"),
        "depth": ("O(n)", "confirmed"),
    }


def test_a_claim_that_cannot_be_read_is_undetermined_with_the_reason() -> None:
    one = verdict("work", measured("their:Layer", attention, claims='{"work": "8nd^^2"}'))
    assert (one.verdict, "is no sum of terms" in one.reason) == ("undetermined", True)


def test_a_constant_depth_may_be_a_step_less_where_n_is_small() -> None:
    stated = '{"depth": "1"}'
    steps = {64: 6}
    one = verdict("depth", measured("their:Layer", attention, depth=lambda n, d, h: steps.get(n, 7), claims=stated))
    assert one.verdict == "confirmed"
    grows = measured("their:Layer", attention, depth=lambda n, d, h: n.bit_length(), claims=stated)
    grown = verdict("depth", grows)
    assert (grown.verdict, "where the claim is" in grown.reason) == ("refuted", True)


def test_settings_are_judged_apart() -> None:
    of = measured("attention.fused", attention, depth=lambda n, d, h: 5)
    wrong = [replace(line, dtype="bfloat16", flops=1, flops_full=1) for line in of]
    found = {one.setting.dtype: one.verdict for one in verdicts(of + wrong, []) if one.quantity == "work"}
    assert found == {"float32": "confirmed", "bfloat16": "refuted"}


def test_a_registered_layer_is_not_judged_at_options_that_its_claims_do_not_know() -> None:
    of = measured("attention.fused", attention, depth=lambda n, d, h: 5, options="block=16")
    found = {one.quantity: (one.verdict, one.reason) for one in verdicts(of, [])}
    unknown = ("undetermined", "claimed at the layer's default, not at block=16")
    assert found == dict.fromkeys(("work", "memory", "depth", "path"), unknown)


def test_a_registered_layer_is_judged_in_the_letters_of_its_own_axes() -> None:
    of = [
        replace(line, own_axes='{"state": ["s", 64]}')
        for s in (16, 64)
        for line in measured(
            "linear.ssd.recurrent",
            lambda n, d, h, s=s: 4 * n * d * d + 8 * s * n * d + 2 * h * n * d,
            options="none" if s == 64 else f"state={s}",
        )
    ]
    one = verdict("work", of)
    assert (one.claimed, one.verdict) == ("4nd² + 8nsd + 2hnd", "confirmed")


def test_failures_alone_leave_everything_undetermined() -> None:
    failed = [
        replace(line, status="error", reason="it broke", time_s=None, peak_bytes=None)
        for line in measured("attention.fused")
    ]
    found = verdicts(failed, fit_laws(failed))
    assert {one.quantity for one in found} == {"work", "memory", "depth", "path", "time"}
    assert {one.verdict for one in found} == {"undetermined"}
    assert all(one.reason for one in found)
    assert verdicts([], []) == []


def test_the_table_has_a_row_a_claim() -> None:
    found = verdicts(measured("attention.fused", attention, depth=lambda n, d, h: 5), [])
    table = claims_table(found)
    assert tuple(table.columns) == COLUMNS
    assert list(table.quantity) == ["work", "memory", "depth", "path", "time"]
    assert set(table.verdict) <= set(VERDICTS)
    assert set(table["mode"]) == {"forward"}
    assert list(claims_table([]).columns) == list(COLUMNS)
