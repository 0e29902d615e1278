"""Entry point of `python -m harness`."""

from harness.cli.commands import run_process

if __name__ == "__main__":
    run_process()
