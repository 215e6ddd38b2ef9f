"""The secrets of a configuration that a text may hold which comes from outside: for whoever takes them out of it.

A provider may quote the key or the headers that it was called with, a caller its own key. Whatever is
shaped like a key is known without this; these are known to the letter, whatever their shape. What is
too short to be anything but a word is left out, or that word would vanish from every text.
"""

from streamweir.config.model import Config

SHORTEST = 12


def secrets_of(config: Config) -> list[str]:
    """Each once."""
    known = [key.key for key in config.keys]
    for provider in config.providers:
        known += [provider.api_key, *provider.headers.values()]
    return sorted({str(secret) for secret in known if len(secret) >= SHORTEST})
