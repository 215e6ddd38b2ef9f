"""The steps between a provider's events and a dialect's bytes: pure, each `feed` and `finish`."""
