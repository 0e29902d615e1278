"""`report.html`: one self-contained page that needs no other file and no network."""
