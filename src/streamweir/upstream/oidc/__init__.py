"""An identity provider: what it publishes, who it says has signed in, and whether to believe it."""
