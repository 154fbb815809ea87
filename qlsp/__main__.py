"""``python -m qlsp``."""

from qlsp.cli import run

if __name__ == "__main__":
    run()
