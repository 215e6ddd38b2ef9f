"""Rules over several settings of one kind: all that are broken are named at once."""
