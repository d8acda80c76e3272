"""Generates the messages first: they say which releases of protobuf can load them."""

import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import stubs  # noqa: E402

setup(
    version="0.1.0",
    packages=["tvq", "tvq.v1"],
    package_data={"tvq": ["py.typed"], "tvq.v1": ["*.pyi"]},
    install_requires=["grpcio>=1.51", f"protobuf>={stubs.generate(HERE)}"],
)
