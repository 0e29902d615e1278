"""Extras: each folder adds itself to the tables of the harness (see `harness.core.model.extra_tables`)."""
