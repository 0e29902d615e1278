"""Theory against measurement: the verdict on each claim of a layer, and Table 1."""
