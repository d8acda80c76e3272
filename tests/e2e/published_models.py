"""Published models, fetched once into .cache/models by scripts/get-model."""

import os
import subprocess
import sys

from server_process import ROOT

UNAVAILABLE = 3  # that get-model exits with where there is no network
FETCH_SECONDS = 600


class NotFetched(Exception):
    """A model is not here and cannot be fetched."""


def published(name, dtype="bfloat16"):
    """The model's directory, with weights of that type. Without a network: NotFetched."""
    into = ROOT / ".cache" / "models" / dtype
    done = subprocess.run([ROOT / "scripts" / "get-model", name, "--dtype", dtype, "--into", into], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=FETCH_SECONDS, env={**os.environ, "TVQ_PYTHON": sys.executable})
    if done.returncode == UNAVAILABLE and os.environ.get("CI") != "true":  # nobody reads what a machine's run has left out
        raise NotFetched(f"the model {name} cannot be fetched from PyPI, and is not here")
    assert done.returncode == 0, done.stderr
    return into / name
