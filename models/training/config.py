"""Shape of a model, as docs/model-format.md defines it in config.json."""

import dataclasses
import json
import pathlib
from typing import Optional

MODEL_TYPES = ("transformer_vq",)  # the attention kinds; models/training/model.py has the class of each


@dataclasses.dataclass
class ModelConfig:
    """Symbols in comments: D d_model, H n_head, G n_kv_head, K d_k, V d_v, S n_code, L block_len, M mem_len."""

    vocab_size: int
    d_model: int
    d_k: int
    d_v: int
    n_code: int
    n_layer: int
    block_len: int
    mem_len: int
    n_head: int = 1
    n_kv_head: Optional[int] = None
    pe_lam: float = 100000.0
    pe_abs: bool = False
    tie_word_embeddings: bool = False
    output_norm: bool = False
    logit_scale: float = 1.0
    prefill_chunk: int = 256
    max_position: int = 0
    pad_token_id: Optional[int] = None
    bos_token_id: Optional[int] = None
    eos_token_id: Optional[int] = None
    unk_token_id: Optional[int] = None
    tokenizer: dict = dataclasses.field(default_factory=lambda: {"type": "bytes"})
    model_type: str = MODEL_TYPES[0]

    def __post_init__(self):
        if self.model_type not in MODEL_TYPES:
            raise ValueError(f"model_type must be one of {', '.join(MODEL_TYPES)}, not {self.model_type!r}")
        if self.n_kv_head is None:
            self.n_kv_head = self.n_head
        for name in ("vocab_size", "d_model", "d_k", "d_v", "n_code", "n_layer", "block_len", "mem_len",
                     "n_head", "n_kv_head", "prefill_chunk"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a positive integer, not {value!r}")
        if self.d_model % 2:
            raise ValueError(f"d_model must be even (sine and cosine halves), not {self.d_model}")
        if self.n_head % self.n_kv_head:
            raise ValueError(f"n_kv_head {self.n_kv_head} must divide n_head {self.n_head}")

    def to_json(self) -> dict:
        return {"model_type": self.model_type, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, fields: dict) -> "ModelConfig":
        """Unknown fields are ignored, as the format says."""
        if "model_type" not in fields:
            raise ValueError("config.json lacks model_type")
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in fields.items() if name in known})

    @classmethod
    def load(cls, directory) -> "ModelConfig":
        return cls.from_json(json.loads((pathlib.Path(directory) / "config.json").read_text()))
