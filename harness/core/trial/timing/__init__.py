"""Timing: warm-up, samples, and records of what else happened during the samples."""
