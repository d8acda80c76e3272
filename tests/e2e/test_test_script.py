"""scripts/test where a stage cannot run: what it says, and its exit code."""

import os
import shutil
import subprocess

import pytest
from server_process import ROOT


@pytest.fixture
def script(tmp_path):
    """The script among others that do nothing, but that for the web page, which finds no npm."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts" / "test", scripts / "test")
    for name, text in [("install-deps", "true"), ("lint", "true"), ("web", "echo 'web: SKIPPED: npm is missing' >&2; exit 77")]:
        (scripts / name).write_text(f"#!/bin/sh\n{text}\n")
        (scripts / name).chmod(0o755)
    return scripts / "test"


def run(script, *stages, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run([script, *stages], env={**kept, **environment}, capture_output=True, text=True, timeout=60)


def test_stage_that_cannot_run_is_told_of(script):
    finished = run(script, "lint", "web")
    assert finished.returncode == 0
    assert "  web left out: npm is missing" in finished.stdout
    assert "scripts/test: skipped: web" in finished.stdout


def test_stage_that_cannot_run_fails_for_a_machine(script):
    finished = run(script, "lint", "web", CI="true")
    assert finished.returncode == 1
    assert "scripts/test: FAILED: web" in finished.stdout
    assert "npm is missing" in finished.stdout.split("=== why web failed ===")[1]
    assert run(script, "lint", CI="true").returncode == 0
