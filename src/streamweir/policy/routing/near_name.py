"""The names that are near a wrong one, for the text of an error.

Callers choose the wrong name, operators have thousands of right ones, and this runs on the event loop: the work is
bounded. Long names are not compared. Of the others, names of a similar length are compared by their pairs of letters,
which takes a few microseconds for each, and only the best of those letter by letter.
"""

from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice, pairwise

MAX_SEEN = 5000
MAX_COMPARED = 500
MAX_LENGTH = 64
_MAX_MATCHED = 12
_MIN_SHARE = 0.3
"""Of equal pairs of letters: a name of eight letters has as many with two of them wrong."""
_MIN_RATIO = 0.6


def near_names(name: str, names: Iterable[str], limit: int) -> list[str]:
    """The nearest of `names`, the best first; at most `_MAX_MATCHED`. The nearest is the name behind a provider's."""
    if not 1 < len(name) <= MAX_LENGTH:
        return []
    folded = name.casefold()
    pairs, suffix = set(pairwise(folded)), f"/{folded}"
    found: dict[str, float] = {}
    scored: list[tuple[float, str]] = []
    compared = 0
    for each in islice(names, MAX_SEEN):
        if len(each) > MAX_LENGTH:
            continue
        other = each.casefold()
        if other.endswith(suffix) and len(found) < limit:
            found[each] = 1.0
        elif 2 * min(len(other), len(folded)) >= _MIN_RATIO * (len(other) + len(folded)) and compared < MAX_COMPARED:
            compared += 1
            own = set(pairwise(other))
            share = 2 * len(pairs & own) / (len(pairs) + len(own)) if own else 0.0
            if share >= _MIN_SHARE:
                scored.append((share, each))
    matcher = SequenceMatcher(b=folded, autojunk=False)
    for _, each in nlargest(_MAX_MATCHED, scored):
        matcher.set_seq1(each.casefold())
        ratio = matcher.ratio()
        if ratio >= _MIN_RATIO:
            found[each] = ratio
    return sorted(found, key=lambda each: (-found[each], each))[:limit]
