"""The fixtures `scaling` and `layer_facts` of anybody's test-suite: what a layer costs, as something to assert."""
