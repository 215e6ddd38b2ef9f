"""A real identity provider of the package index (`oidc-provider-mock`, on Authlib), as a process of its own.

    with identity_provider() as url:
        ...

It knows two people, whom a button of its page signs in: `ada-1` and `eve-1`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from support.deadlines import WAIT_TIMEOUT_S

_PROGRAM = """
import sys
from oidc_provider_mock import User, app
from werkzeug.serving import make_server
GROUPS = ["platform"]
people = [
    User(sub="ada-1", claims={"name": "Ada", "email": "ada@example.com", "email_verified": True, "groups": GROUPS}),
    User(sub="eve-1", claims={"name": "Eve", "email": "ada@example.com", "email_verified": False}),
]
server = make_server("127.0.0.1", 0, app(user_claims=people, require_nonce=True), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def identity_provider() -> Iterator[str]:
    """Its address, which is its issuer."""
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM]
    environment = {**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"}
    with subprocess.Popen(  # noqa: S603 (our own command)
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
            process.wait(WAIT_TIMEOUT_S)
