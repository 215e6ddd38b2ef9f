"""How long tests wait for what must happen: so long that a busy machine is no reason to fail."""

PATIENCE_S = 120.0
"""For anything that must happen. Nothing is expected to take it, and no test measures speed by it."""
PATIENT_S = 60.0
"""For what the program waits for. Shorter, so that it is the program which says what it has waited for."""
