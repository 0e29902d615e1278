"""What happens inside the measured process: build, verify, clock, memory. Only this floor and `impls/` use torch."""
