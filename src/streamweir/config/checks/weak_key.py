"""Detects keys that are placeholders: `changeme-changeme`, or one repeated letter.

This does not measure strength: an operator may choose a simple key of sufficient length. It detects keys that nobody
chose.
"""

import re

MIN_KEY_LENGTH = 16
_WORDS = re.compile(r"change[-_ ]?me|change[-_ ]?this|replace[-_ ]?me|password|passwd|placeholder|your|api|key|here|sk")
_MIN_DISTINCT_CHARACTERS = 5


def is_easy_to_guess(secret: str) -> bool:
    """Without the words of placeholders, only few distinct characters remain."""
    rest = re.sub(r"[-_ .]", "", _WORDS.sub("", secret.lower()))
    return len(set(rest)) < _MIN_DISTINCT_CHARACTERS
