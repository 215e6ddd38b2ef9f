"""A bounded set of targets about which something was learned.

At most `max_targets` are remembered, because callers choose model names. The ones that were not asked for the longest
time are dropped first.
"""

from collections import OrderedDict

from streamweir.policy.routing.health import TargetId


class TargetMemory:
    def __init__(self, max_targets: int = 10_000) -> None:
        self._max_targets = max_targets
        self._targets: OrderedDict[TargetId, None] = OrderedDict()

    def note(self, target: TargetId) -> None:
        self._targets[target] = None
        self._targets.move_to_end(target)
        if len(self._targets) > self._max_targets:
            self._targets.popitem(last=False)

    def __contains__(self, target: TargetId) -> bool:
        if target not in self._targets:
            return False
        self._targets.move_to_end(target)
        return True

    def including(self, target: TargetId) -> "TargetMemory":
        """The same with this target, for one request: others do not know it."""
        return _Including(self, target)


class _Including(TargetMemory):
    def __init__(self, known: TargetMemory, target: TargetId) -> None:
        super().__init__()
        self._known = known
        self._target = target

    def note(self, target: TargetId) -> None:
        self._known.note(target)

    def __contains__(self, target: TargetId) -> bool:
        return target == self._target or target in self._known
