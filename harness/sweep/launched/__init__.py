"""A sweep in shards, each a job that drives its own slice into the same run's directory."""
