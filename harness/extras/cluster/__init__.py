"""Sweeps in shards: as jobs on a Slurm cluster, or as processes on this machine."""

LAUNCHERS = ["harness.extras.cluster.launch"]
