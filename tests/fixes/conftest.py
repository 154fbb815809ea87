"""Makes the helpers of ``tests`` and of ``proofs`` importable from here."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "proofs"), str(TESTS.parent)]
