"""Fixtures for the clients' tests: the Python package, built once, and a stand-in for the server."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import forking  # noqa: E402,F401

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "client" / "python"


@pytest.fixture(scope="session", autouse=True)
def package(tmp_path_factory):
    """The folder that holds the package `tvq` with its generated part; on sys.path."""
    out = tmp_path_factory.mktemp("package")
    shutil.copytree(PACKAGE / "tvq", out / "tvq", ignore=shutil.ignore_patterns("v1", "__pycache__"))
    sys.path.insert(0, str(PACKAGE))
    import stubs
    stubs.generate(out)
    sys.path.insert(0, str(out))
    return out


@pytest.fixture
def fake(package):
    """A server without a model: sessions hold bytes, and the answer to TEXT is TEXT in capitals, again and again."""
    from fake_server import FakeServer
    server = FakeServer()
    yield server
    server.stop()
