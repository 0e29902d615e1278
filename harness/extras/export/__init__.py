"""Results and scripts in other tools' formats."""
