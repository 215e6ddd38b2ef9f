"""The secrets of a configuration: for whoever takes them out of a text, and for whoever shows what is configured.

A provider may quote the key or the headers that it was called with, a caller its own key. Whatever is
shaped like a key is known without this; these are known to the letter, whatever their shape. What is
too short to be anything but a word is left out, or that word would vanish from every text.
"""

import re

from streamweir.config.model import Config

SHORTEST = 12
MASK = "****"
_SHORTEST_SHOWN = 16
"""Of a secret of which the last four characters may be seen (docs/spec/security.md S11)."""
_TAIL = re.compile(r"[?#].*", re.DOTALL)
_QUERY = re.compile(r"[?#].*=", re.DOTALL)


def secrets_of(config: Config) -> list[str]:
    """Each once."""
    known = [key.key for key in config.keys]
    for provider in config.providers:
        known += [provider.api_key, *provider.headers.values()]
    return sorted({str(secret) for secret in known if len(secret) >= SHORTEST})


def masked(secret: str) -> str:
    """Enough to tell two apart; nothing of a short one."""
    if not secret:
        return ""
    return MASK + secret[-4:] if len(secret) >= _SHORTEST_SHOWN else MASK


def masked_url(url: str) -> str:
    """Where it leads, without who goes there. A password that was not quoted may hold any sign of an address; where
    what stands before the last @ may as well be a query, nobody can tell what is a secret, and nothing is shown."""
    scheme, separator, rest = url.partition("://")
    who, at, where = rest.rpartition("@")
    if _QUERY.search(who):
        return f"{scheme}{separator}{MASK}"
    shown = _TAIL.sub(lambda found: found[0][0] + MASK, where)
    return f"{scheme}{separator}{MASK if who else ''}{at}{shown}"
