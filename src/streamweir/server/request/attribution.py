"""What may be kept of what callers say about requests: secrets are masked, and what the operator wants masked.

A text is an id more often than not, so a long opaque one is kept, unless it looks like a key. The secrets of the
configuration and the patterns of the operator (`[store] redact`) are masked as in stored content.
"""

import re

from streamweir.config.model import Config
from streamweir.config.secret import secrets_of
from streamweir.policy.attribution import MAX_LENGTH, Recorder
from streamweir.policy.redact import Redactor
from streamweir.server.telemetry.sanitize import clean_id
from streamweir.store.journal.entries import plain


def recorder_of(config: Config) -> Recorder:
    redactor = Redactor([*config.store.redact, *map(re.escape, sorted(secrets_of(config)))])
    return Recorder(config.store.end_user, lambda text: plain(clean_id(redactor.text(text), MAX_LENGTH)))
