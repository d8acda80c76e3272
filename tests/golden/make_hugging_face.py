#!/usr/bin/python3
"""Makes hugging_face/llava_mistral and hugging_face/qwen2_vl.

    make_hugging_face.py DIR    with transformers 4.46.3 and PyTorch

Small models with random weights that read images, too; what is expected is what they say of texts. qwen2_vl has its
fields in one object, as they were written then.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

VOCABULARY = 160
TEXT = {"vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096, "bos_token_id": None,
        "eos_token_id": None, "pad_token_id": None}


def llava_mistral():
    config = transformers.LlavaConfig(
        text_config=transformers.MistralConfig(**TEXT, head_dim=20, sliding_window=None),
        vision_config=transformers.CLIPVisionConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                                    num_attention_heads=2, image_size=28, patch_size=14))
    model = transformers.LlavaForConditionalGeneration(config)
    return model, model.language_model


def qwen2_vl():
    config = transformers.Qwen2VLConfig(
        **TEXT, rope_theta=50000.0, rope_scaling={"type": "mrope", "mrope_section": [2, 2, 2]}, use_sliding_window=False,
        vision_config={"depth": 1, "embed_dim": 16, "num_heads": 2, "hidden_size": 48})
    model = transformers.Qwen2VLForConditionalGeneration(config)
    return model, model


def scale(model):
    """Predictions far from uniform, and no bias or gain that could be left out."""
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.copy_(1 + 0.3 * torch.randn_like(weight))
        elif weight.dim() == 1:
            weight.copy_(0.3 * torch.randn_like(weight))
        else:
            weight.mul_(30 if "embed" in name else 8)


@torch.no_grad()
def expected(model):
    found = {}
    for name, count in (("text", 300), ("short", 1)):
        ids = torch.randint(0, VOCABULARY, (1, count))
        found[f"{name}.tokens"] = ids[0].to(torch.int32)
        found[f"{name}.logprobs"] = torch.log_softmax(model(input_ids=ids).logits[0], -1).contiguous()
    return found


def main():
    for make in (llava_mistral, qwen2_vl):
        torch.manual_seed(5)
        whole, text = make()
        whole.eval().float()
        with torch.no_grad():
            scale(whole)
        folder = pathlib.Path(sys.argv[1]) / make.__name__
        whole.save_pretrained(folder)
        save_file(expected(text), folder / "expected.safetensors")
        print(folder)


if __name__ == "__main__":
    main()
