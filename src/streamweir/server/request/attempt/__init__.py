"""One attempt of a request: which candidate, what it is sent, and what is reported of it."""
