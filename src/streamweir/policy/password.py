"""Which passwords may be chosen: long ones that are not the name. Pure.

Length is what makes a password hard to guess; demands for special characters make people write it down.
"""

MIN_LENGTH = 12
MAX_LENGTH = 256
"""In characters: hashing a longer one would cost more than it protects."""
_MIN_DIFFERENT = 5
"""Different characters."""


def fault_of_password(password: str, name: str) -> str | None:
    """Why it may not be chosen by the person of that name."""
    if len(password) < MIN_LENGTH:
        return f"A password has at least {MIN_LENGTH} characters."
    if len(password) > MAX_LENGTH:
        return f"A password has at most {MAX_LENGTH} characters."
    if len(set(password)) < _MIN_DIFFERENT:
        return f"A password has at least {_MIN_DIFFERENT} different characters."
    folded, own = password.casefold(), name.casefold()
    if folded.replace(own, "").strip("0123456789 !.-_") == "" or (len(own) >= MIN_LENGTH // 2 and own in folded):
        return "A password is not made of the name."
    return None
