"""Tables: one row per operator, one module per backend. Knowledge lives here, not in code that asks for a name."""
