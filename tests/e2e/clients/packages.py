"""Packages of others at fixed versions, fetched once into .cache/clients. What cannot be fetched is skipped."""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ROOT

HERE = Path(__file__).parent
CACHE = ROOT / ".cache" / "clients"
GO_PROGRAMS = {"grpcurl": ("github.com/fullstorydev/grpcurl", "v1.9.4"), "ghz": ("github.com/bojand/ghz", "v0.120.0")}
FETCH_SECONDS = 600


def need(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing")


def run(*command, **kwargs):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_SECONDS,
                          **kwargs)


def fetched(name, key, fetch, registry, reach):
    """The folder of CACHE that the commands `fetch(folder)` fill; another one when `key` has changed.

    Skips the test if one fails and so does the command `reach(folder)`, which only asks the registry something."""
    folder = CACHE / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / ".complete").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for command in fetch(folder):
            done = run(*command)
            if done.returncode == 0:
                continue
            if run(*reach(folder)).returncode != 0:
                pytest.skip(f"{registry} cannot be reached, and {name} is not here")
            pytest.fail(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
        (folder / ".complete").touch()
    return folder


def python_with_openai():
    """The interpreter of a virtual environment that has the package openai."""
    requirements = HERE / "requirements.txt"

    def fetch(folder):
        yield sys.executable, "-m", "venv", folder
        yield (folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1",
               "-r", requirements)

    def reach(folder):
        return folder / "bin" / "pip", "download", "--retries", "0", "--no-deps", "--dest", folder / "reach", "idna"

    key = requirements.read_text() + sys.executable + platform.python_version()
    return fetched("openai", key, fetch, "PyPI", reach) / "bin" / "python"


def node_packages():
    """The folder whose node_modules are those of package-lock.json."""
    need("node")
    need("npm")

    def fetch(folder):
        for file in ["package.json", "package-lock.json"]:
            shutil.copy(HERE / file, folder)
        yield ("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1",
               "--prefix", folder)

    def reach(_):
        return "npm", "ping", "--fetch-retries=0", "--loglevel=silent"

    return fetched("node", (HERE / "package-lock.json").read_text(), fetch, "npm's registry", reach)


def go_program(name):
    """A program of GO_PROGRAMS, which is compiled here."""
    need("go")
    module, version = GO_PROGRAMS[name]

    def fetch(folder):
        yield "env", f"GOBIN={folder}", "go", "install", f"{module}/cmd/{name}@{version}"

    def reach(_):
        return "go", "list", "-m", f"{module}@{version}"

    return fetched(name, version, fetch, "Go's module proxy", reach) / name


def run_cases(command, **environment):
    """Runs a program of cases; fails with what it says."""
    done = run(*command, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
