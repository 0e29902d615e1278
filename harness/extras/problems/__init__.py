"""Problem files: others' models with their own sizes, measured and swept as they are.

A problem file of KernelBench has a class `Model` and the functions `get_inputs` and `get_init_inputs`. Its integers
are axes. A definition of FlashInfer Trace is JSON and has axes of its own. The name of such a layer is
`problem-file:FILE`, or `problem-file:FILE+SOLUTION` for a solution of the problem.
"""

LAYER_SOURCES = [("problem-file", "harness.extras.problems.trials.layer:layer_of")]
OVERRIDES = ["harness.extras.problems.overrides:with_problems"]
TRIAL_KINDS = [("look_at_problem", "harness.extras.problems.overrides:LOOK")]
FINDINGS = ["harness.extras.problems.declared:declared_findings"]
FORMATS = [
    ("liger-csv", ".csv", "harness.extras.problems.viewer_formats:export_liger"),
    ("pytorch-hud", ".json", "harness.extras.problems.viewer_formats:export_hud"),
    ("huggingface-kernels", ".json", "harness.extras.problems.viewer_formats:export_huggingface"),
    ("flashinfer-trace", ".jsonl", "harness.extras.problems.viewer_formats:export_flashinfer"),
    ("kernelbench", ".py", "harness.extras.problems.layer_export:export_problem"),
    ("flashinfer-definition", ".json", "harness.extras.problems.layer_export:export_definition"),
]
