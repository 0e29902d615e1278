"""From a run's rows to tables, plots and an answer in words. Reads; measures nothing."""
