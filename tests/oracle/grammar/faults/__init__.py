"""Planted mistakes, one file per group of rules; importing the package fills the table `plant.FAULTS`."""

from tests.oracle.grammar.faults import boundary, functionals, fusion, harmless, operators, scales, structure

__all__ = ["boundary", "functionals", "fusion", "harmless", "operators", "scales", "structure"]
