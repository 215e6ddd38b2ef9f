"""One process from its start to its end, several of them under a supervisor, and their wiring."""
