"""The architectures of GGUF files that can be imported, by their names there."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str  # in GGUF, and of the family here
    transformers: str  # its class
    turned: bool = False  # the rows of queries and keys are in the order of rotated pairs
    biases: bool = False  # of queries, keys and values; always
    biases_by_field: bool = False  # of attention and of the MLP: attention_bias, mlp_bias
    head_norms: bool = False  # of queries and keys


ARCHITECTURES = {
    # Mistral's models too: without a window in use they compute the same.
    "llama": Architecture("llama", "LlamaForCausalLM", turned=True, biases_by_field=True),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", biases=True),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", head_norms=True),
}
