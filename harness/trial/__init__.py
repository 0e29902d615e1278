"""What happens inside the measured process: build, verify, facts, timing. Only this floor and `impls/` use torch."""
