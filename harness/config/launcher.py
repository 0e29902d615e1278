"""Check the settings of where trials run."""

import math

from harness.case import AXES
from harness.config.schema import Launcher
from harness.errors import UsageError, did_you_mean

HERE, SLURM, PROCESSES = "here", "slurm", "processes"
# Lower limits. With `time` below 5 minutes, submitit ends a job before anything is measured.
_LEAST = {"time": 5, "cpus_per_task": 1, "array_parallelism": 1, "attempts": 1}
_SECONDS = ("silence_s", "queue_s")


def check_launcher(launcher: Launcher) -> Launcher:
    """Return `launcher` unchanged. Raises UsageError for the first invalid setting."""
    if launcher.cluster not in (HERE, SLURM, PROCESSES):
        known = (HERE, SLURM, PROCESSES)
        raise UsageError(f"launcher.cluster={launcher.cluster}{did_you_mean(launcher.cluster, known)}")
    for name, least in _LEAST.items():
        value = getattr(launcher, name)
        if value is not None and value < least:
            raise UsageError(f"launcher.{name}={value}: it takes a whole number from {least} on")
    for name in _SECONDS:
        if not 0 < getattr(launcher, name) < math.inf:
            raise UsageError(f"launcher.{name}={getattr(launcher, name)}: it takes a number above 0")
    for axis in launcher.apart:
        if axis not in AXES:
            raise UsageError(f"launcher.apart: {axis}{did_you_mean(axis, AXES)}")
    return launcher


def threads_of(launcher: Launcher) -> int:
    """The default number of threads: `cpus_per_task`, since the CPUs of a node are unknown here.

    Raises UsageError if `cpus_per_task` is not set.
    """
    if launcher.cpus_per_task is None:
        raise UsageError(
            f"launcher={launcher.cluster} needs threads=N or launcher.cpus_per_task=N: how many CPUs to use"
        )
    return launcher.cpus_per_task
