"""From syntax to facts: the program model and the abstract interpreter."""
