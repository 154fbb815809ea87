"""Frozen abstract values: what the interpreter knows of a tensor, a module instance, a list."""
