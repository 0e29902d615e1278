"""The gate: whether layers got worse. This package compares tables; it measures nothing itself."""
