"""Writes llama.cpp's chat templates, which the source package of PyPI's llama-cpp-python holds, into a folder; fetches 77 MB."""

import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.published import download, package_index  # noqa: E402

PACKAGE, FILE = "llama-cpp-python", "llama_cpp_python-0.3.36.tar.gz"
SIZE, SHA256 = 76589250, "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
FOLDER = "/vendor/llama.cpp/models/templates/"


def main(into):
    settings = package_index.Settings(sys.executable)
    opener = settings.opener()
    url = package_index.find_file(opener, settings.indexes(), PACKAGE, FILE)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / FILE
        download.fetch(opener, url, package, SIZE, SHA256, sys.stderr)
        with tarfile.open(package) as archive:
            for member in archive:
                if FOLDER in member.name and member.name.endswith(".jinja"):
                    (into / Path(member.name).name).write_bytes(archive.extractfile(member).read())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
