"""Shape of a model, as docs/model-format.md defines it in config.json."""

import dataclasses
import json
import pathlib
from typing import List, NamedTuple, Optional, Tuple


class KindFields(NamedTuple):
    """The fields of a kind of attention that other kinds lack: those it must have, and those it may have."""

    required: Tuple[str, ...]
    optional: Tuple[str, ...] = ()


# The attention kinds; models/training/model.py has the class of each.
KINDS = {
    "transformer_vq": KindFields(required=("n_code", "block_len", "mem_len"), optional=("position_bias",)),
    "softmax_transformer": KindFields(required=("mem_len",), optional=("block_len", "position_bias")),
    "linear_transformer": KindFields(required=(), optional=("block_len",)),
    "soft_codebook": KindFields(required=("n_code", "sigma"), optional=("block_len",)),
    "performer": KindFields(required=("n_feature",), optional=("block_len",)),
    "vq_encoder": KindFields(required=("n_code",)),
}
KIND_FIELDS = sorted({name for kind in KINDS.values() for name in kind.required + kind.optional})
# The forms of position_bias that a kind may have; the first is the default. rerope turns codes, so it needs a kind with codes.
POSITION_BIASES = {"transformer_vq": ("relative", "toeplitz", "rerope"), "softmax_transformer": ("relative", "toeplitz")}
NUMBERS = ("sigma",)  # any number above 0; the other fields are integers
MAY_BE_ZERO = ("mem_len",)  # with 0 a position reaches itself alone
BLOCKS = ("gated", "standard")


@dataclasses.dataclass(kw_only=True)
class ModelConfig:
    """Symbols in comments: D d_model, H n_head, G n_kv_head, K d_k, V d_v, S n_code, L block_len, M mem_len, F d_ff.

    A field that the kind or the block lacks is None, and is not written to config.json.
    """

    vocab_size: int
    d_model: int
    d_k: int
    d_v: int
    n_code: Optional[int] = None
    n_layer: int
    block_len: Optional[int] = None
    mem_len: Optional[int] = None
    position_bias: Optional[str] = None
    sigma: Optional[float] = None
    n_feature: Optional[int] = None
    block: str = BLOCKS[0]
    d_ff: Optional[int] = None
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
    model_type: str = "transformer_vq"

    def __post_init__(self):
        if self.model_type not in KINDS:
            raise ValueError(f"model_type must be one of {', '.join(KINDS)}, not {self.model_type!r}")
        if self.block not in BLOCKS:
            raise ValueError(f"block must be one of {', '.join(BLOCKS)}, not {self.block!r}")
        if self.n_kv_head is None:
            self.n_kv_head = self.n_head
        positive = ["vocab_size", "d_model", "d_k", "d_v", "n_layer", "n_head", "n_kv_head", "prefill_chunk"]
        for name in positive + [name for name in self._kind_fields() if name != "position_bias"] + self._block_fields():
            value, types = getattr(self, name), (int, float) if name in NUMBERS else int
            kind = "number" if name in NUMBERS else "integer"
            if name in MAY_BE_ZERO:
                if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                    raise ValueError(f"{name} must be an integer of at least 0, not {value!r}")
            elif not isinstance(value, types) or isinstance(value, bool) or not value > 0:
                raise ValueError(f"{name} must be a positive {kind}, not {value!r}")
        if self.d_model % 2:
            raise ValueError(f"d_model must be even (sine and cosine halves), not {self.d_model}")
        self._check_position_bias()
        if self.n_head % self.n_kv_head:
            raise ValueError(f"n_kv_head {self.n_kv_head} must divide n_head {self.n_head}")

    def _kind_fields(self) -> List[str]:
        """The fields of this kind that are set; ValueError if a field of another kind is set."""
        kind = KINDS[self.model_type]
        for name in KIND_FIELDS:
            if name not in kind.required + kind.optional and getattr(self, name) is not None:
                raise ValueError(f"{name} is {getattr(self, name)!r}: a {self.model_type} has none")
        return [*kind.required, *(name for name in kind.optional if getattr(self, name) is not None)]

    def _check_position_bias(self):
        forms = POSITION_BIASES.get(self.model_type, ())
        if self.position_bias is not None and self.position_bias not in forms:
            raise ValueError(f"position_bias must be one of {', '.join(forms)}, not {self.position_bias!r}")
        if self.position_bias == "rerope" and self.d_k % 2:
            raise ValueError(f"d_k must be even (it is rotated in pairs), not {self.d_k}")
        if forms and self.position_bias == forms[0]:
            self.position_bias = None  # the default, as if it were not given

    def _block_fields(self) -> List[str]:
        if self.block == "standard":
            return ["d_ff"]
        if self.d_ff is not None:
            raise ValueError(f"d_ff is {self.d_ff!r}: only a standard block has it, this one is {self.block}")
        return []

    def to_json(self) -> dict:
        fields = {"model_type": self.model_type, **dataclasses.asdict(self)}
        absent = {name for name in (*KIND_FIELDS, "d_ff") if fields[name] is None}
        if self.block == BLOCKS[0]:
            absent.add("block")
        return {name: value for name, value in fields.items() if name not in absent}

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
