"""The gate: whether layers got worse. It reads tables and compares them; it never measures by itself."""
