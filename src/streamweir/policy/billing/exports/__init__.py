"""The usage and cost exports of providers, as they publish them, read into one form."""
