"""The plugin is imported without the names that pytest got after its lowest version."""

from test_lowest_versions import import_without

LATER_NAMES = ["Dir", "Directory", "FixtureDef", "HIDDEN_PARAM", "RaisesExc", "RaisesGroup", "TerminalReporter"]


def test_the_plugin_is_imported_without_names_that_came_later() -> None:
    import_without("pytest", LATER_NAMES, ["harness.extras.pytest_plugin.plugin"])
