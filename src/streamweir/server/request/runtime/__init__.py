"""The configuration as the objects that requests use."""
