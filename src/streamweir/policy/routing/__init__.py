"""Which target is tried next, and when it is left out."""
