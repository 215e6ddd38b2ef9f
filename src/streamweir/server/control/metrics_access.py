"""Who may read the metrics, and who those about money and the names of keys and workspaces, too (`money_metrics`).

    everybody                          `metrics_public`: without money
    this machine                       `metrics_local`: all of them
    a key with the scope `metrics`     all of them: only the operator grants it
    a key with the scope `admin`       without money: it is the admin of one workspace
    the admin secret, and sessions     by their role (`control.api.authentication`)

A connection from this machine proves nothing by itself: a proxy on it may forward requests of anyone, without a header
that shows it. So `metrics_local` is a setting.
"""

import time
from collections.abc import Callable

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.http.answers import Refusal
from streamweir.server.http.message import Request
from streamweir.server.request.admission import authenticate, is_local
from streamweir.server.request.runtime.config import RuntimeConfig


class MetricsAccess:
    def __init__(self, runtime: Callable[[], RuntimeConfig], directory: KeyDirectory) -> None:
        self._runtime = runtime
        self._directory = directory

    def error_of(self, request: Request) -> StreamweirError | None:
        """Why this request may not read them, as far as keys and settings say. None: it may."""
        if self._runtime().config.server.metrics_public or self._is_at_home(request):
            return None
        try:
            key = authenticate(request.headers, self._directory, time.time())
        except Refusal as refusal:
            return refusal.error
        if not {"metrics", "admin"}.intersection(key.scopes):
            return CallerError("insufficient_permissions", "This key has neither the scope 'metrics' nor 'admin'.")
        return None

    def sees_money(self, request: Request) -> bool:
        if self._is_at_home(request):
            return True
        try:
            return "metrics" in authenticate(request.headers, self._directory, time.time()).scopes
        except Refusal:
            return False

    def _is_at_home(self, request: Request) -> bool:
        return self._runtime().config.server.metrics_local and is_local(request)
