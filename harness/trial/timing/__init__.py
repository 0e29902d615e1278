"""The clock: warm-up, samples, and what else happened while they were taken."""
