"""Looks for a random case that a program treats otherwise than its reference, and shrinks it."""

import argparse
import random
from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")


class Search(Generic[C]):
    def __init__(
        self,
        random_case: Callable[[random.Random], C],
        difference: Callable[[C], str | None],
        shrunk: Callable[[C, Callable[[C], bool]], C],
    ) -> None:
        """`difference`: what the program does otherwise, or None. `shrunk`: a smaller case that still fails."""
        self._random_case = random_case
        self._difference = difference
        self._shrunk = shrunk

    def first_failure(self, count: int, seed: int, on_progress: Callable[[int], None] | None = None) -> str | None:
        """A report of the first of `count` cases that fails, or None."""
        rng = random.Random(seed)
        for number in range(count):
            case = self._random_case(rng)
            if self._difference(case) is not None:
                least = self._shrunk(case, lambda smaller: self._difference(smaller) is not None)
                return f"seed {seed}, input {number}\n  {least}\n  {self._difference(least)}"
            if on_progress and number and number % 100_000 == 0:
                on_progress(number)
        return None

    def run(self, description: str) -> int:
        """As a program; the status to exit with."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--count", type=int, default=1_000_000, help="how many inputs (default: %(default)s)")
        parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32), help="default: random")
        options = parser.parse_args()
        print(f"seed {options.seed}", flush=True)
        failure = self.first_failure(options.count, options.seed, lambda number: print(f"{number} inputs", flush=True))
        print(failure or f"{options.count} inputs, no difference")
        return 1 if failure else 0
