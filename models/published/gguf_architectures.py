"""The architectures of GGUF files that can be imported, by their names in GGUF."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str  # in GGUF, and of the family here
    transformers: str  # its class in transformers
    turned: bool = False  # whether the rows of queries and keys are in the order of rotated pairs
    biases: bool = False  # whether queries, keys and values always have biases
    biases_by_field: bool = False  # whether attention and MLP may have biases: attention_bias, mlp_bias
    head_norms: bool = False  # whether queries and keys are normed by head


ARCHITECTURES = {
    # Mistral's models are of this architecture, too: without a window in use they compute the same.
    "llama": Architecture("llama", "LlamaForCausalLM", turned=True, biases_by_field=True),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", biases=True),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", head_norms=True),
}
