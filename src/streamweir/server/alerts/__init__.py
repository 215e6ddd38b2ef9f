"""Alerts: one process finds them, and sends them to the operator's webhooks."""
