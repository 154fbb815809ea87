"""Makes the helpers of ``tests`` importable from here, and torch as fast as these small models allow."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
torch.set_num_threads(1)
