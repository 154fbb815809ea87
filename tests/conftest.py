"""Tests know of no installed packages but those that they name: what the shell has active must not matter."""

import os

os.environ["VIRTUAL_ENV"] = "no environment"
