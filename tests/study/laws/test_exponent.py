"""Local exponents: between those of the terms, moving with n, and known as well as the law is."""

import numpy as np
import pytest
from study.laws.costs import attention, grid, noisy

from harness.study.laws.fit_law import fit_law
from harness.study.laws.integer_laws import exact_law
from harness.study.laws.laws import Costs, exponent_of


def test_attention_bends_from_one_to_two_around_twice_the_width() -> None:
    points = grid(d=(128, 256))
    law = fit_law(Costs(points, (8 * points.n * points.d**2 + 4 * points.n**2 * points.d) * 1e-12))
    small, bend, large = (exponent_of(law, "n", n, 256) for n in (8, 512, 32768))
    assert small is not None
    assert bend is not None
    assert large is not None
    assert small.value == pytest.approx(1 + 8 / (8 + 512), rel=1e-6)
    assert bend.value == pytest.approx(1.5, rel=1e-6)
    assert large.value == pytest.approx(2, abs=0.02)
    width = exponent_of(law, "d", 512, 256)
    assert width is not None
    assert width.value == pytest.approx(1.5, rel=1e-6)


def test_an_exact_law_has_an_exact_exponent() -> None:
    points = grid(d=(128, 256, 512))
    law = exact_law(points, [int(4 * n * d * d) for n, d in zip(points.n, points.d, strict=True)])
    assert law is not None
    found = exponent_of(law, "d", 64, 128)
    assert found is not None
    assert (found.lo, found.value, found.hi) == (2, 2, 2)


def test_along_an_axis_that_did_not_vary_there_is_none() -> None:
    points = grid()
    assert exponent_of(fit_law(Costs(points, points.n * 1e-6)), "d", 64, 256) is None


def test_the_interval_holds_the_true_exponent_nineteen_times_in_twenty() -> None:
    points = grid(d=(128, 256))
    rate = 1e11
    held = []
    for seed in range(60):
        law = fit_law(Costs(points, noisy(attention(points, rate), 0.03, seed)))
        for n in (256, 2048):
            linear, square = 8 * n * 256**2 / rate, 4 * n**2 * 256 / rate
            true = (linear + 2 * square) / (20e-6 + linear + square)
            found = exponent_of(law, "n", n, 256)
            assert found is not None
            held.append(found.lo <= true <= found.hi)
    assert np.mean(held) >= 0.93


def test_noise_widens_the_interval() -> None:
    points = grid(d=(128, 256))
    quiet, loud = (
        exponent_of(fit_law(Costs(points, noisy(attention(points), s, 0))), "n", 2048, 256) for s in (0.01, 0.1)
    )
    assert quiet is not None
    assert loud is not None
    assert quiet.hi - quiet.lo < loud.hi - loud.lo
