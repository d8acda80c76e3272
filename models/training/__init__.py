"""Training of Transformer-VQ models in PyTorch; see README.md in this folder."""
