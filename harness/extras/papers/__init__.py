"""Published figures and claims of papers, beside what a run of their setting has measured."""

FINDINGS = ["harness.extras.papers.claims:published_findings"]
