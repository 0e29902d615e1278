"""A run in a notebook: `harness.load`, and `harness.laws_of` and `harness.plots_of` for anybody's table."""

_LOADED_RUN = "harness.extras.notebook.loaded_run"
PUBLIC = [(name, f"{_LOADED_RUN}:{name}") for name in ("load", "laws_of", "plots_of")]
