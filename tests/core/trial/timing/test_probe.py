"""The probe measures the machine and not the allocator."""

import resource

from harness.core.trial.environment import probe_readings


def test_a_probe_takes_no_new_memory_once_it_has_begun() -> None:
    probe_readings()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        assert all(0 < reading < 1 for reading in probe_readings())
    # Were the results new memory each time, it would be 36 pages a reading.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20 * 20
