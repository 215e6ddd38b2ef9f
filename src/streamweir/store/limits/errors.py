"""What is said of a Valkey that cannot be asked. Apart from the rest, for it is needed where Redis' library is not."""


class SharedError(Exception):
    """Shared limits cannot be set up as configured. One clear line, without a secret."""


class SharedUnavailable(Exception):
    """Valkey is away, too slow, or cannot do it at the moment. Whether it has done it is not known."""
