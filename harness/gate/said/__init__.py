"""What a gate found, for people and for machines: a table on the terminal, Markdown, JUnit XML, JSON."""
