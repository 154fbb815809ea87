"""One file per rule. Adding a file here is the whole registration: see docs/adding-a-rule.md."""
