"""The errors of shared limits, in a module of their own because they are needed without the Redis library."""


class SharedError(Exception):
    """Shared limits cannot be set up as configured. The message is one line, without secrets."""


class SharedUnavailable(Exception):
    """Valkey is unavailable, too slow, or refuses the call. Whether the call had an effect is not known."""
