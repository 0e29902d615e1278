"""A sweep in shards: each is a job that measures its part of the cases into the same run directory."""
