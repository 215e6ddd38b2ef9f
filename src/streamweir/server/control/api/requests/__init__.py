"""Requests that were made and that run, and their sums."""
