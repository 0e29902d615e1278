"""Virtual environments with this process's packages, and with a package `worked` of their own that holds a layer."""

import subprocess
import sys
import sysconfig
from pathlib import Path


def plant_environment(directory: Path, version: str, code: str) -> Path:
    """Make an environment whose package `worked-layers` has this version and this code."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    packages = packages_of(directory)
    (packages / "running.pth").write_text("\n".join({sysconfig.get_path(name) for name in ("purelib", "platlib")}))
    (packages / "worked").mkdir()
    (packages / "worked" / "__init__.py").write_text(code)
    plant_version(packages, "worked-layers", version)
    (packages / f"worked_layers-{version}.dist-info" / "top_level.txt").write_text("worked\n")
    return directory


def packages_of(directory: Path) -> Path:
    """Where the environment's packages are installed."""
    [packages] = directory.glob("lib/python*/site-packages")
    return packages


def plant_version(packages: Path, name: str, version: str) -> None:
    """Make a distribution look installed, without any code."""
    metadata = packages / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
