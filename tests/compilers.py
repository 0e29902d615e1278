"""What tests need that compile for real."""

import os
import shutil

import pytest

needs_cxx = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="torch.compile needs a C++ compiler: g++, or CXX"
)
