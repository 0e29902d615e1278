"""What layers cost commit by commit: the commit that changed one, and its history as a page."""
