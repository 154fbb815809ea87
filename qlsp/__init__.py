"""qlsp reads PyTorch quantization code and says, before training, what will go wrong in int8."""

__version__ = "0.1.0"
