"""How things are shown in the terminal."""
