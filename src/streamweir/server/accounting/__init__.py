"""Reservations, limits and settlements of this process, and the keys that it holds in memory."""
