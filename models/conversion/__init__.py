"""Commands and modules of models that are converted."""

import os

# Before numpy is imported: OpenBLAS would share matrices of one head among cores, and wait more than compute (cores.py).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
