"""Problem files: others' models with their own sizes, measured and swept as they are.

A problem file of KernelBench has a class `Model` and the functions `get_inputs` and `get_init_inputs`. Its integers
are axes. A definition of FlashInfer Trace is JSON and has axes of its own. The name of such a layer is
`problem-file:FILE`, or `problem-file:FILE+SOLUTION` for a solution of the problem.
"""

LAYER_SOURCES = [("problem-file", "harness.extras.problems.trials.layer:layer_of")]
OVERRIDES = ["harness.extras.problems.overrides:with_problems"]
TRIAL_KINDS = [("look_at_problem", "harness.extras.problems.overrides:LOOK")]
FINDINGS = ["harness.extras.problems.declared:declared_findings"]
FORMATS = [("flashinfer-trace", ".jsonl", "harness.extras.problems.exports:export_traces")]
