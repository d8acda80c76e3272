"""The program under test."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TVQ = Path(os.environ.get("TVQ_BIN_DIR", ROOT / "build" / "release" / "bin")) / "tvq"


class Cli:
    """Runs tvq against a server."""

    def __init__(self, address):
        self.address = address

    def run(self, *arguments, input=b"", env=None):
        return subprocess.run([TVQ, "--server", self.address, *map(str, arguments)], input=input, capture_output=True,
                              timeout=300, env=env)

    def ok(self, *arguments, **kwargs):
        """stdout of a run that must succeed, without the newline at its end."""
        done = self.run(*arguments, **kwargs)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().rstrip("\n")

    def json(self, *arguments, **kwargs):
        return json.loads(self.ok("--json", *arguments, **kwargs))

    def start(self, *arguments, **kwargs):
        """A run in progress, with pipes."""
        return subprocess.Popen([TVQ, "--server", self.address, *map(str, arguments)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)
