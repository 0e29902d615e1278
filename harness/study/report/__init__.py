"""Tables, plots and an answer in words, made from a run's rows. Nothing here measures."""
