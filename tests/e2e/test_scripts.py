"""What the scripts say of wrong options and values, before they build or change anything."""

import os
import subprocess

import pytest
from server_process import BIN, ROOT

TRAINING = ["train-couplets", "train-digits", "train-novels", "train-wiki", "memory-tasks"]
SCRIPTS = [*TRAINING, "run", "demo-sessions", "capacity", "reliability", "format", "test", "lint", "web", "install-deps",
           "get-model", "gguf-python"]


def run(tmp_path, script, *arguments, **environment):
    """In an empty folder, which it leaves empty."""
    done = subprocess.run([ROOT / "scripts" / script, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env={**os.environ, "TVQ_BIN_DIR": str(BIN), **environment})
    assert list(tmp_path.iterdir()) == []
    return done


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(tmp_path, script):
    done = run(tmp_path, script, "--help")
    assert done.returncode == 0 and f"scripts/{script}" in done.stdout and done.stderr == ""


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_unknown_option_is_named(tmp_path, script):
    done = run(tmp_path, script, "--nonsense")
    assert done.returncode == 2 and "--nonsense" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("script, option, value, wanted", [
    ("run", "--max-tokens", "ten", "must be a whole number"),
    ("run", "--model", "../novels", "must be the name of a model"),
    ("run", "--model", "nothing", "scripts/get-model --list names those"),
    ("run", "--port", "", "must be a whole number"),
    ("run", "--http-port", "-1", "must be a whole number"),
    ("demo-sessions", "--forks", "0", "must be a whole number from 1 on"),
    ("demo-sessions", "--lines", "all", "must be a whole number from 1 on"),
    ("capacity", "--rounds", "0", "must be a whole number from 1 on"),
    ("capacity", "--seconds", "nan", "must be a number from 0.1 on"),
    ("capacity", "--concurrency", "1,x", "must be a whole number from 1 on"),
    ("capacity", "--only", "curve,cruve", "no 'cruve'; there are curve, offered, overload, streams, idle, moves"),
])
def test_a_wrong_value_is_named_with_what_is_right(tmp_path, script, option, value, wanted):
    done = run(tmp_path, script, option, value)
    assert done.returncode == 2 and done.stdout == ""
    assert option in done.stderr and wanted in done.stderr


@pytest.mark.parametrize("script, program", [
    ("run", "tvq-server"), ("demo-sessions", "tvq-server"), ("capacity", "tvq-server"), ("reliability", "tvq-server")])
def test_programs_that_are_missing_are_named(tmp_path, script, program):
    done = run(tmp_path, script, TVQ_BIN_DIR="/nowhere")
    assert done.returncode in (1, 2) and done.stdout == ""
    assert f"there is no {program}" in done.stderr and "/nowhere" in done.stderr
