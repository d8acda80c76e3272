"""A model of any model_type: the project's own kinds of attention (model.py) and the public families with recurrent layers
(recurrent/model.py)."""

import json
import pathlib

from models.training.config import ModelConfig
from models.training.model import Model
from models.training.recurrent.model import FAMILIES, RecurrentModel


def read_config(fields: dict):
    """The config of a config.json's fields."""
    family = FAMILIES.get(fields.get("model_type"))
    return ModelConfig.from_json(fields) if family is None else family.config.from_json(fields)


def load_config(directory):
    return read_config(json.loads((pathlib.Path(directory) / "config.json").read_text()))


def build(config):
    """A model with its initial parameters."""
    return (Model if isinstance(config, ModelConfig) else RecurrentModel)(config)
