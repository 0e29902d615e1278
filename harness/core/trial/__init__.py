"""The code that runs in a trial's process: build, verify, facts, timing. Only this package and `impls/` use torch."""
