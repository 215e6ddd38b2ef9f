"""Sockets towards the providers: a request goes out, an answer comes back in callbacks."""
