"""One attempt: the bytes of an upstream's answer to the caller, its deadlines and its end."""
