"""What several of the gateway's tests share."""

import pytest


@pytest.fixture
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause before a retry is as short as it may be."""
    monkeypatch.setattr("streamweir.server.request.request.random", lambda: 0.0)
