"""One parser for all commands: flags and `key=value` in any order, with errors of one line."""

import argparse
from typing import NoReturn

from harness.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises UsageError instead of printing its usage and exiting."""

    def __init__(self, command: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=f"python -m harness {command}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")
