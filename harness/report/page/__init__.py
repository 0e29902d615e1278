"""`report.html`: one page that needs nothing beside it, no network either."""
