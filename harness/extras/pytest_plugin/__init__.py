"""The fixtures `scaling` and `layer_facts` for any test suite: assert what a layer costs."""
