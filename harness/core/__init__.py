"""What measures: the axes and cases, the layers, trials, runs and their results."""
