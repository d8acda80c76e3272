"""Makes the folders beside this file from the full golden checkpoints: make.py FULL_DIR TEST_MODEL

FULL_DIR holds bytes_untied, pieces_tied, pixels_abs and heads_unequal, each with a checkpoint, reference_config.json and
expected.safetensors. TEST_MODEL is SentencePiece's test_model.model, the tokenizer of pieces_tied.
"""

import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from models.training.files import safetensors  # noqa: E402
from models.training.import_reference import import_reference  # noqa: E402

# Rows kept of every sequence; a row depends on earlier tokens only, so a cut sequence is as true as the whole.
ROWS = {
    "bytes_untied": {"text": 300, "random": 100, "constant": 100},
    "heads_unequal": {"text": 300, "random": 100, "constant": 100},
    "pieces_tied": {"text": 150, "random": 50, "constant": 50},
    "pixels_abs": {},
}
ORIGINALS = {"bytes_untied": "checkpoint_400", "heads_unequal": "checkpoint_200"}  # one of each on-disk form


def shrink(expected: dict, rows: dict) -> dict:
    return {name: array[:rows.get(name.split(".")[0])] for name, array in expected.items()}


def main(full: pathlib.Path, test_model: pathlib.Path):
    here = pathlib.Path(__file__).resolve().parent
    for name, rows in ROWS.items():
        import_reference(full / name, here / name, tokenizer=test_model if name == "pieces_tied" else None,
                         pixels="14,14,1,16" if name == "pixels_abs" else None)
        expected = safetensors.load(full / name / "expected.safetensors")
        safetensors.save(here / name / "expected.safetensors", shrink(expected, rows))
    for name, checkpoint in ORIGINALS.items():
        target = here / "checkpoints" / name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(full / name / "reference_config.json", target / "reference_config.json")
        source = full / name / checkpoint
        files = [source] if source.is_file() else [source / "checkpoint"]
        for file in files:
            place = target / file.relative_to(full / name)
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, place)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
