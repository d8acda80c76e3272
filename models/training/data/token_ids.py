"""How token ids are stored: in the smaller of two integer types that holds them."""

import numpy as np


def id_type(vocab_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
