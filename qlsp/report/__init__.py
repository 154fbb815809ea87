"""Reports: pure functions from diagnostics, or from a quantization map, to text."""
