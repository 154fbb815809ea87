"""Tools for maintainers of qlsp. Nothing imports this package."""
