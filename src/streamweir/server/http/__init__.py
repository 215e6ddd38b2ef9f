"""HTTP towards callers: listener, connections, heads, bodies, answers. No provider and no money here."""
