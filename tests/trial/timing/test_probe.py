"""The probe measures the machine and not the allocator."""

import resource

from harness.trial.environment import probe_s


def test_a_probe_takes_no_new_memory_once_it_has_begun() -> None:
    probe_s()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        assert 0 < probe_s() < 1
    # Two matrices of 36 pages a probe, at most; were the product new memory each time, it would be 36 more each of 8.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20 * 80
