"""Fixtures: the generated Python stubs, and servers started for the tests."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "client")]
import forking  # noqa: E402,F401
from api import generate  # noqa: E402
from published_models import NotFetched, published  # noqa: E402
from server_process import GOLDEN, ROOT, ServerProcess  # noqa: E402


@pytest.fixture(scope="session")
def api(tmp_path_factory):
    """The modules generated from proto/, as api.generation, api.generation_grpc, ..."""
    return generate(tmp_path_factory.mktemp("stubs"))


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The folder that holds the Python package with its generated part."""
    source, out = ROOT / "client" / "python", tmp_path_factory.mktemp("package")
    shutil.copytree(source / "tvq", out / "tvq", ignore=shutil.ignore_patterns("v1", "__pycache__"))
    subprocess.run([sys.executable, source / "stubs.py", out], check=True)
    return out


def fetched(name):
    """The directory of a published model, with bfloat16 weights."""
    try:
        return published(name)
    except NotFetched as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def smollm2():
    """SmolLM2-135M-Instruct."""
    return fetched("smollm2")


@pytest.fixture(scope="session")
def smollm2_vq():
    """The same, converted."""
    return fetched("smollm2-vq")


@pytest.fixture(scope="module")
def server(api):
    """A server of two models: `bytes` (with an end id) and `pixels` (without)."""
    with ServerProcess(
            api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", "--model", f"pixels={GOLDEN / 'pixels_abs'}",
            "--max-prompt-tokens", "5000000") as process:
        yield process


@pytest.fixture
def start(api):
    """start(*flags) starts a server of the model `bytes`, stopped at the end of the test."""
    with contextlib.ExitStack() as started:
        yield lambda *flags: started.enter_context(
            ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", *flags))


@pytest.fixture
def fake(api):
    """A stand-in for a server, tests/client/fake_server.py."""
    from fake_server import FakeServer
    server = FakeServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def tvq():
    """Runs the command line client and returns the finished process."""

    def run(*arguments, input=None, **kwargs):
        binary = Path(os.environ.get("TVQ_BIN_DIR", ROOT / "build" / "release" / "bin")) / "tvq"
        if input is None:
            kwargs["stdin"] = subprocess.DEVNULL
        return subprocess.run([binary, *map(str, arguments)], capture_output=True, input=input, timeout=300, **kwargs)

    return run
