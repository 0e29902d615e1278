"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs"): the same layer in three forms."""
