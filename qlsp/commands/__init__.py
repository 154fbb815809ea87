"""The commands, one module each; ``cli`` imports the one that runs."""
