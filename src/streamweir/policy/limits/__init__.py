"""What a key, a target or an end user may use, and how much is reserved for a request."""
