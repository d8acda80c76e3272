"""The config.json of a converted model: its shape, and how each kv head keeps its past.

The fields of the shape are Hugging Face's; README.md describes those of `conversion`.
"""

import dataclasses
import json
import pathlib
from typing import Dict, FrozenSet, NamedTuple, Optional, Tuple

RING_STEP = 64  # a ring's length is a multiple of this
USUAL_CHUNK = 256  # prefill_chunk if config.json has none (docs/model-format.md)

Head = Tuple[int, int]  # layer, kv head


class ConfigError(ValueError):
    """config.json cannot be used; the message names the field and what would be right."""


class Family(NamedTuple):
    """The differences between families, and the defaults of fields that config.json leaves out (as in transformers)."""

    biases: str = ""  # whether queries, keys and values have biases: "always", or by the field of this name
    mlp_bias: bool = False  # whether the field mlp_bias is read
    head_norms: bool = False
    kv_heads: Optional[int] = None  # None: as many as query heads
    head_dim: Optional[int] = None  # None: hidden_size / num_attention_heads
    window: str = ""  # whether layers look back no further than a window: "always", or if the field of this name is true


FAMILIES = {
    "llama": Family(biases="attention_bias", mlp_bias=True),
    "mistral": Family(kv_heads=8, window="always"),
    "qwen2": Family(biases="always", kv_heads=32, window="use_sliding_window"),
    "qwen3": Family(biases="attention_bias", head_norms=True, kv_heads=32, head_dim=128, window="use_sliding_window"),
}
USUAL_WINDOW = 4096  # the window if config.json does not have the field (as in transformers)


@dataclasses.dataclass(frozen=True)
class Conversion:
    codes: int  # S of every kv head
    context: int  # T, the context that the model was trained with
    ring: int  # W of the heads that are not in `wide`
    wide: Dict[Head, int]  # W of the heads with wide rings
    grow: FrozenSet[Head]  # heads that keep all keys

    def ring_of(self, head: Head) -> int:
        return self.wide.get(head, self.ring)

    def to_json(self) -> dict:
        rings = sorted(set(self.wide.values()))
        wide = [{"ring": ring, "heads": [list(head) for head in sorted(self.wide) if self.wide[head] == ring]} for ring in rings]
        found = {"version": 1, "codes": self.codes, "trained_context": self.context, "ring": self.ring, "wide": wide}
        return {**found, "grow": [list(head) for head in sorted(self.grow)]} if self.grow else found


@dataclasses.dataclass(frozen=True)
class Config:
    """The shape: H query heads and G kv heads of K numbers. Without a conversion it is that of the softmax model."""

    vocab: int
    width: int
    inner: int  # the MLP's inner width
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    qkv_biases: bool
    output_bias: bool
    mlp_biases: bool
    head_norms: bool
    tied: bool  # whether the logits use the embedding
    rope: dict  # the fields that frequencies.py reads
    chunk: int
    conversion: Optional[Conversion] = None

    def heads_by_ring(self) -> list:
        """The kv heads that have codes, ordered by layer, then by the length of the ring, then by number."""
        every = [(layer, head) for layer in range(self.layers) for head in range(self.kv_heads)]
        coded = [head for head in every if self.conversion and head not in self.conversion.grow]
        return sorted(coded, key=lambda head: (head[0], self.conversion.ring_of(head), head[1]))


def load_config(directory) -> Config:
    path = pathlib.Path(directory) / "config.json"
    try:
        return read_config(json.loads(path.read_text(encoding="utf-8")))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: is no JSON: {error}") from None


def read_config(fields: dict) -> Config:
    kind = fields.get("model_type")
    if kind not in FAMILIES:
        raise ConfigError(f"model_type is {kind!r}, must be one of {', '.join(FAMILIES)}")
    family = FAMILIES[kind]

    def positive(name: str, usual: Optional[int] = None) -> int:
        value = fields.get(name, usual)
        if not is_positive(value):
            raise ConfigError(f"{name} is {value!r}, must be an integer above 0")
        return value

    check_window(fields, family)
    width, heads = positive("hidden_size"), positive("num_attention_heads")
    # A null means as many as query heads; only an absent field has the family's default.
    usual_kv_heads = heads if "num_key_value_heads" in fields else family.kv_heads or heads
    fields = {name: value for name, value in fields.items() if value is not None}
    kv_heads = positive("num_key_value_heads", usual_kv_heads)
    if heads % kv_heads:
        raise ConfigError(f"num_key_value_heads is {kv_heads}, must divide num_attention_heads, which is {heads}")
    field_biases = family.biases not in ("", "always") and bool(fields.get(family.biases, False))
    config = Config(
        vocab=positive("vocab_size"), width=width, inner=positive("intermediate_size"), layers=positive("num_hidden_layers"),
        heads=heads, kv_heads=kv_heads, head_dim=positive("head_dim", family.head_dim or width // heads),
        epsilon=float(fields.get("rms_norm_eps", 1e-6)), qkv_biases=family.biases == "always" or field_biases,
        output_bias=field_biases, mlp_biases=family.mlp_bias and bool(fields.get("mlp_bias", False)),
        head_norms=family.head_norms, tied=bool(fields.get("tie_word_embeddings", False)), rope=rope_fields(fields),
        chunk=positive("prefill_chunk", USUAL_CHUNK))
    if "conversion" not in fields:
        return config
    return dataclasses.replace(config, conversion=read_conversion(fields["conversion"], config))


def check_window(fields: dict, family: Family) -> None:
    window = fields.get("sliding_window", USUAL_WINDOW)
    if window is not None and (family.window == "always" or fields.get(family.window)):
        raise ConfigError(f"sliding_window is {window}, must be null: layers that look back no further than a window keep no "
                          "more, and are not converted")
    if others := sorted(set(fields.get("layer_types") or []) - {"full_attention"}):
        raise ConfigError(f"layer_types has {others[0]!r}, must be full_attention throughout")


def rope_fields(fields: dict) -> dict:
    """The fields of rotary positions, from both forms: rope_parameters, and rope_theta with rope_scaling."""
    found = {name: fields[name] for name in ("rope_theta", "partial_rotary_factor") if name in fields}
    for name in ("rope_scaling", "rope_parameters"):
        found.update({key: value for key, value in fields.get(name, {}).items() if value is not None})
    return found


def is_positive(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def read_conversion(fields: dict, config: Config) -> Conversion:
    if not isinstance(fields, dict):
        raise ConfigError(f"conversion is {fields!r}, must be an object")
    if fields.get("version") != 1:
        raise ConfigError(f"conversion.version is {fields.get('version')!r}, must be 1")
    for name in ("codes", "trained_context"):
        if not is_positive(fields.get(name)):
            raise ConfigError(f"conversion.{name} is {fields.get(name)!r}, must be an integer above 0")
    wide = {}
    for entry in fields.get("wide") or []:
        for head in map(tuple, entry["heads"]):
            if head in wide:
                raise ConfigError(f"conversion.wide has head {list(head)} twice")
            wide[head] = entry["ring"]
    conversion = Conversion(codes=fields["codes"], context=fields["trained_context"], ring=fields.get("ring"), wide=wide,
                            grow=frozenset(map(tuple, fields.get("grow") or [])))
    check_conversion(conversion, config)
    return conversion


def check_conversion(conversion: Conversion, config: Config) -> None:
    """ConfigError if no model of this shape can have this conversion."""
    if conversion.context % config.chunk:
        raise ConfigError(f"conversion.trained_context is {conversion.context}, must be a multiple of prefill_chunk, "
                          f"which is {config.chunk}")
    for ring in [conversion.ring, *conversion.wide.values()]:
        if not is_positive(ring) or ring % RING_STEP or ring > conversion.context:
            raise ConfigError(f"conversion has a ring of {ring!r}, must be a multiple of {RING_STEP} from {RING_STEP} to "
                              f"trained_context, which is {conversion.context}")
    for name, heads in (("wide", conversion.wide), ("grow", conversion.grow)):
        for head in heads:
            if len(head) != 2 or not 0 <= head[0] < config.layers or not 0 <= head[1] < config.kv_heads:
                raise ConfigError(f"conversion.{name} has head {list(head)}, must be [layer, kv head] of {config.layers} layers "
                                  f"with {config.kv_heads} kv heads")
    if both := sorted(conversion.grow & set(conversion.wide)):
        raise ConfigError(f"conversion has head {list(both[0])} in wide and in grow, must have it in one of them")
