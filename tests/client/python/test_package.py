"""The package itself: its README's examples and its type hints."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "client" / "python"


def test_readme_examples_run(tvq, fake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    examples = [example for example in examples if "127.0.0.1:50051" in example]
    assert len(examples) == 5
    for example in examples:
        exec(example.replace("127.0.0.1:50051", fake.address), {})
    assert "16 tokens" in capsys.readouterr().out
    assert fake.sessions == {}


def test_everything_exported_exists(tvq):
    assert all(hasattr(tvq, name) for name in tvq.__all__) and tvq.__all__ == sorted(tvq.__all__)


def test_types(package):
    pytest.importorskip("mypy")
    shutil.copy(PACKAGE / "pyproject.toml", package)
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "-p", "tvq"], cwd=package,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
