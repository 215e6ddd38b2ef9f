"""How many tokens of answer a reservation covers: the sizes that are tried, the largest first.

Every series here is finite and falls strictly, so whoever tries its members one by one comes to an
end, whatever is refused. Knows neither prices nor accounts.
"""

_SMALLER = 4
"""Where an extension does not fit, one of this part of it is tried, down to what is needed at once."""


def extension_sizes(covered: int, needed: int, step: int) -> tuple[int, ...]:
    """What to extend a reservation of `covered` tokens to, for an answer that has `needed` tokens already.

    `needed` itself is the last. Empty: the reservation covers it.
    """
    if needed <= covered:
        return ()
    sizes = []
    while covered + step > needed:
        sizes.append(covered + step)
        step //= _SMALLER
    return (*sizes, needed)
