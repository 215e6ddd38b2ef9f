"""The steps between a provider's events and a frontend's bytes: pure, each `feed` and `finish`."""
