"""HTTP towards callers: listener, connections, heads, bodies, answers. Independent of providers and accounting."""
