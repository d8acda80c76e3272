"""Model directories: config.json and model.safetensors from a PyTorch model, and back.

    python3 -m models.training.export RUN/best.pt MODEL_DIR [--tokenizer FILE] [--bfloat16] [--add-bos-token]
"""

import argparse
import json
import pathlib
import shutil

import torch

from models.training.families import build, load_config, read_config
from models.training.files import checkpoint, safetensors
from models.training.files.directory import read_tensors, write_model
from models.training.quantize import EXACT, dequantized


def tensors_of(model, bfloat16: bool = False) -> dict:
    """Tensors by their names in the format. Codebooks, random features and distance biases always stay float32."""
    tensors = {}
    for name, value in model.state_dict().items():
        array = value.detach().cpu().float().numpy()
        keep = not bfloat16 or EXACT.search(name)
        tensors[name] = array if keep else safetensors.BFloat16.rounded(array)
    return tensors


def load_model(directory):
    """The model of a directory, in float32."""
    directory = pathlib.Path(directory)
    model = build(load_config(directory))
    tensors = dequantized(read_tensors(directory))
    for name, value in model.state_dict().items():
        if name not in tensors:
            raise ValueError(f"{directory}: lacks the tensor {name}")
        if tensors[name].shape != tuple(value.shape):
            raise ValueError(f"{directory}: tensor {name} has shape {list(tensors[name].shape)}, not {list(value.shape)}")
    if surplus := sorted(set(tensors) - set(model.state_dict())):
        raise ValueError(f"{directory}: the model of config.json has no use for {len(surplus)} tensors, such as {surplus[0]}")
    model.load_state_dict({name: torch.from_numpy(tensors[name]) for name in model.state_dict()})
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, help="the tokenizer's file, for kinds that have one")
    parser.add_argument("--bfloat16", action="store_true", help="round everything but the codebooks")
    parser.add_argument("--add-bos-token", action="store_true",
                        help="texts begin with the end-of-sequence id, as in training: generation_config.json says so")
    arguments = parser.parse_args()
    saved = checkpoint.load(arguments.checkpoint)
    model = build(read_config(saved["config"]))
    wants = model.config.tokenizer.get("file")
    if bool(wants) != bool(arguments.tokenizer):
        parser.error(f"the model's tokenizer has {'the file ' + wants if wants else 'no file'}")
    if arguments.add_bos_token and model.config.eos_token_id is None:
        parser.error("--add-bos-token: the model has no end-of-sequence id")
    model.load_state_dict(saved["model"])
    write_model(arguments.model_dir, model.config, tensors_of(model, arguments.bfloat16))
    if wants:
        shutil.copyfile(arguments.tokenizer, arguments.model_dir / wants)
    if arguments.add_bos_token:
        begin = {"bos_token_id": model.config.eos_token_id, "add_bos_token": True}
        (arguments.model_dir / "generation_config.json").write_text(json.dumps(begin, indent=2) + "\n")


if __name__ == "__main__":
    main()
