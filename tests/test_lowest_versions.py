"""The lowest versions of other packages: declared and tested alike, and used without names that came later."""

import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def test_the_lowest_versions_are_those_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = map(Requirement, project["dependencies"] + project["optional-dependencies"]["pytest"])
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    tested = map(Requirement, [line for line in lines if not line.startswith("#")])
    lowest = {
        requirement.name: bound.version
        for requirement in declared
        for bound in requirement.specifier
        if bound.operator == ">="
    }
    del lowest["torch"]
    assert {requirement.name: str(requirement.specifier) for requirement in tested} == {
        name: f"=={version}" for name, version in lowest.items()
    }


def import_without(package: str, names: list[str], modules: list[str]) -> None:
    """Import the modules in a process whose `package` lacks these names. It must succeed."""
    code = "\n".join(
        [
            "import importlib, pandas, scipy.optimize",
            f"package = importlib.import_module({package!r})",
            *(f"vars(package).pop({name!r}, None)" for name in names),
            *(f"importlib.import_module({module!r})" for module in modules),
        ]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_laws_are_fitted_without_names_that_came_later() -> None:
    import_without("numpy", ["bool", "long"], ["harness.study.laws.laws", "harness.study.laws.piecewise"])
