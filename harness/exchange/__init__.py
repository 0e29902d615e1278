"""A run in other tools' formats: lines in, the bytes of a file out. What they write is read in `harness.summary`."""
