"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs"): one layer in three forms."""
