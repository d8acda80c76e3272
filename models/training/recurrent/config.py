"""config.json of the public families with recurrent layers: the fields that say what is computed, under their public names."""

import dataclasses
import math
from typing import List, Optional, Union


def refuse(name: str, value, must: str):
    raise ValueError(f"{name} must be {must}, not {value!r}")


@dataclasses.dataclass(kw_only=True)
class PublicConfig:
    """What all these families have. A field that no code here reads is written as it was read."""

    model_type = None  # of a subclass
    n_code = None  # these have no codes
    FIXED = {"quantization_config": None}  # fields that may have no other value

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    tie_word_embeddings: bool = False
    eos_token_id: Union[int, List[int], None] = None
    tokenizer: dict = dataclasses.field(default_factory=lambda: {"type": "ids"})
    others: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                refuse(field.name, value, "a positive integer")
        for name, wanted in {**PublicConfig.FIXED, **self.FIXED}.items():
            if self.others.get(name, wanted) != wanted:
                refuse(name, self.others[name], repr(wanted))

    def to_json(self) -> dict:
        """A tokenizer of ids is not written: the directory may hold a tokenizer.json."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "others"}
        absent = [name for name, value in fields.items() if value is None or name == "tokenizer" and value == {"type": "ids"}]
        return {"model_type": self.model_type, **{name: fields[name] for name in fields if name not in absent}, **self.others}

    @classmethod
    def from_json(cls, fields: dict) -> "PublicConfig":
        known = {field.name for field in dataclasses.fields(cls)} - {"others"}
        missing = [field.name for field in dataclasses.fields(cls) if field.name not in fields
                   and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING]
        if missing:
            raise ValueError(f"the config.json of a {cls.model_type} lacks {missing[0]}")
        return cls(**{name: fields[name] for name in known & fields.keys()},
                   others={name: value for name, value in fields.items() if name not in known | {"model_type"}})


@dataclasses.dataclass(kw_only=True)
class Rwkv7Config(PublicConfig):
    model_type = "rwkv7"
    FIXED = {"hidden_act": "sqrelu", "attn": None}

    head_dim: int
    intermediate_size: int
    decay_low_rank_dim: int
    a_low_rank_dim: int
    v_low_rank_dim: int
    gate_low_rank_dim: int
    norm_first: bool = True
    norm_bias: bool = True
    norm_eps: float = 1e-5
    value_dim: Union[int, List[int], None] = None

    def __post_init__(self):
        super().__post_init__()
        if self.hidden_size % self.head_dim:
            refuse("hidden_size", self.hidden_size, f"a multiple of head_dim, which is {self.head_dim}")
        widths = self.value_dim if isinstance(self.value_dim, list) else [self.value_dim]
        if set(widths) - {None, self.hidden_size}:
            refuse("value_dim", self.value_dim, f"hidden_size, which is {self.hidden_size}")

    @staticmethod
    def usual_ranks(width: int) -> dict:
        """The ranks of the authors' code for this width."""
        sizes = dict(decay_low_rank_dim=1.8 * width ** 0.5, a_low_rank_dim=1.8 * width ** 0.5,
                     v_low_rank_dim=1.3 * width ** 0.5, gate_low_rank_dim=0.6 * width ** 0.8)
        return {name: max(32, round(size / 32) * 32) for name, size in sizes.items()}


@dataclasses.dataclass(kw_only=True)
class Mamba2Config(PublicConfig):
    model_type = "mamba2"
    FIXED = {"hidden_act": "silu"}

    num_heads: int
    head_dim: int
    state_size: int
    n_groups: int = 8
    expand: int = 2
    conv_kernel: int = 4
    use_bias: bool = False
    use_conv_bias: bool = True
    layer_norm_epsilon: float = 1e-5
    time_step_limit: Optional[list] = None

    def __post_init__(self):
        super().__post_init__()
        if self.num_heads % self.n_groups:
            refuse("num_heads", self.num_heads, f"a multiple of n_groups, which is {self.n_groups}")
        if self.num_heads * self.head_dim != self.expand * self.hidden_size:
            refuse("num_heads", self.num_heads, f"expand * hidden_size / head_dim, of {self.expand}, {self.hidden_size} and "
                                                f"{self.head_dim}")

    def step_limits(self):
        """-> (least, most); config.json may spell infinity as {"__float__": "Infinity"}"""
        least, most = self.time_step_limit or (0.0, math.inf)
        return float(least), float(most["__float__"] if isinstance(most, dict) else most)


@dataclasses.dataclass(kw_only=True)
class Qwen35Config(PublicConfig):
    model_type = "qwen3_5_text"
    FIXED = {"hidden_act": "silu", "attn_output_gate": True}

    intermediate_size: int
    layer_types: List[str]
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int = 4
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    attention_bias: bool = False
    rms_norm_eps: float = 1e-6
    rope_parameters: dict

    def __post_init__(self):
        super().__post_init__()
        if len(self.layer_types) != self.num_hidden_layers or set(self.layer_types) - {"linear_attention", "full_attention"}:
            refuse("layer_types", self.layer_types,
                   f"linear_attention or full_attention for each of {self.num_hidden_layers} layers")
        for heads, shared in (("linear_num_value_heads", "linear_num_key_heads"), ("num_attention_heads", "num_key_value_heads")):
            if getattr(self, heads) % getattr(self, shared):
                refuse(heads, getattr(self, heads), f"a multiple of {shared}, which is {getattr(self, shared)}")
        if self.rope_parameters.get("rope_type", "default") != "default":
            refuse("rope_type", self.rope_parameters["rope_type"], "'default'")
        if self.rotary_width() % 2:
            refuse("partial_rotary_factor * head_dim", self.rotary_width(), "even (it is rotated in pairs)")

    def rotary_width(self) -> int:
        return int(self.head_dim * self.rope_parameters.get("partial_rotary_factor", 0.25))

    def rope_theta(self) -> float:
        return self.rope_parameters["rope_theta"]
