"""A gate's outcomes for people and machines: terminal tables, Markdown, JUnit XML and JSON."""
