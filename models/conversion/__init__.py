"""Commands and modules for converted models."""

import os

# Set before numpy is imported: OpenBLAS would divide matrices of one head among cores, and wait more than compute (cores.py).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
