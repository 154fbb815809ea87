"""Syntax: text to chunks, chunks to trees, names to qualified names."""
