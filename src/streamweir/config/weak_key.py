"""Whether a key is one that people are known to leave in place: `changeme-changeme`, one letter over and over.

Not a measure of strength: an operator may choose a simple key, and a length is demanded of all. It
catches what nobody chose.
"""

import re

SHORTEST = 16
_WORDS = re.compile(r"change[-_ ]?me|change[-_ ]?this|replace[-_ ]?me|password|passwd|placeholder|your|api|key|here|sk")
_FEWEST_CHARACTERS = 5


def is_easy_to_guess(secret: str) -> bool:
    """Nothing is left but a character or two when the words of placeholders are taken out."""
    rest = re.sub(r"[-_ .]", "", _WORDS.sub("", secret.lower()))
    return len(set(rest)) < _FEWEST_CHARACTERS
