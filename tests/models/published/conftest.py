import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNAVAILABLE = 3  # that scripts exit with where what they would fetch cannot be reached


def packages():
    """The folder with the packages that read GGUF files, from scripts/gguf-python."""
    made = subprocess.run([ROOT / "scripts" / "gguf-python"], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "TVQ_PYTHON": sys.executable})
    if made.returncode == UNAVAILABLE and os.environ.get("CI") != "true":
        print("SKIPPED: PyPI cannot be reached, and the packages that read GGUF files are not here", file=sys.stderr)
        sys.exit(77)  # to ctest, that this was skipped
    if made.returncode != 0:
        sys.exit("the packages that read GGUF files are missing")
    return next((pathlib.Path(made.stdout.strip()).parents[1] / "lib").glob("python3*/site-packages"))


sys.path[:0] = [str(ROOT), str(packages())]  # before the system's numpy, which may be too old for them
