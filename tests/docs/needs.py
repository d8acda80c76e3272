"""What the marker `needs` may name: Workplace.run's further arguments, or a skip where it is missing and cannot be fetched."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from clients.packages import python_with_openai
from workplace import ROOT


def encoder():
    """A server of a model that encodes alone. Its texts are numbers."""
    return {"models": ("--model", "encoder=tests/golden/families/encoder_gated_multi_query")}


def openai():
    """OpenAI's package of PyPI."""
    return {"python": python_with_openai()}


def pip():
    """That of a virtual environment, which finds this system's packages."""
    folder = Path(tempfile.mkdtemp())
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder], check=True)
    reach = [folder / "bin" / "pip", "download", "--quiet", "--retries", "1", "--no-deps", "--dest", folder, "setuptools"]
    if subprocess.run(reach, capture_output=True).returncode != 0:
        pytest.skip("PyPI cannot be reached, and pip needs it")
    return {"path": folder / "bin"}


def buf():
    """The program that scripts/buf fetches from npm."""
    if subprocess.run([ROOT / "scripts" / "buf", "--version"], capture_output=True).returncode != 0:
        pytest.skip("buf is not here, and npm cannot fetch it")
    return {}


def torch():
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip(f"{sys.executable} has no PyTorch")
    return {}


NEEDS = {need.__name__: need for need in (encoder, openai, pip, buf, torch)}
