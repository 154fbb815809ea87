"""Operators: what one kind of operator does to domain and scale. Tables of operators live in ``backends``."""
