"""The operator tables against torch."""
