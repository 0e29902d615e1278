"""Layers whose cost is linear in n, with one matrix as the state of each head: recurrent, and in chunks of tokens."""
