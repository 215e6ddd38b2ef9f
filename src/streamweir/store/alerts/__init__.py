"""Alerts: what was found, what was reported, and the outbox from which it is sent."""
