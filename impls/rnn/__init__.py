"""Recurrent layers (Elman 1990, "Finding structure in time"), from plain loops to parallel scans."""
