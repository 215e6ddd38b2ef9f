"""Providers, their limits and models, and the processes that use them."""
