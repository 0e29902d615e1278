"""Export a run to other tools' formats: lines in, the bytes of a file out.

`harness.summary` reads the files that those tools write.
"""
