"""The text of a first configuration file, with comments: what was chosen, and examples of what may follow.

Secrets are never written into it: each is a variable of the environment. A test reads the text for every kind of
provider with the checks of a start. Pure.
"""

from collections.abc import Iterator, Sequence
from json import dumps

from msgspec import Struct

from streamweir.config.address import BUILT_IN, is_loopback, split_listen
from streamweir.providers.registry import default_base_url

STORES = ("sqlite", "postgresql")
KEY = "STREAMWEIR_KEY"


class Choices(Struct, frozen=True, kw_only=True):
    providers: tuple[str, ...] = ("sim",)
    """Kinds."""
    listen: str = "127.0.0.1:8080"
    store: str = "sqlite"
    is_shared: bool = False
    """Limits are shared by several processes."""

    @property
    def needs_key(self) -> bool:
        address = split_listen(self.listen)
        return address is None or not is_loopback(address[0])

    @property
    def variables(self) -> list[str]:
        """That must be set for a start."""
        found = [name for kind in dict.fromkeys(self.providers) for name in _variables(kind)]
        found += ["DATABASE_URL"] if self.store == "postgresql" else []
        found += ["VALKEY_URL"] if self.is_shared else []
        return [*found, *([KEY] if self.needs_key else [])]


def initial_config(choices: Choices) -> str:
    parts = [_HEAD, _server(choices), _store(choices), *_providers(choices), _models(choices), _keys(choices)]
    return "\n".join(parts)


_HEAD = """\
# The configuration of a Streamweir gateway. docs/configuration.md explains every setting.
#
#   streamweir config check         every mistake in this file, with its line
#   streamweir serve --config FILE  start; SIGHUP reads the file again
#   streamweir doctor               reaches every provider and store that is named here
#
# ${NAME} is a variable of the environment, or of the file that --env-file names: keep secrets there.
"""


def _server(choices: Choices) -> str:
    about = "reachable from other machines, so that [[keys]] are needed" if choices.needs_key else "this machine alone"
    return f"""\
[server]
listen = {dumps(choices.listen)}        # {about}
# default_model = "fast"                # of requests that name no model
# health_listen = "127.0.0.1:8081"      # /health and /ready on a port of their own

# [server.tls]
# cert_file = "cert.pem"
# key_file = "key.pem"
"""


def _store(choices: Choices) -> str:
    url = {
        "sqlite": 'url = "sqlite:///streamweir.db"         # in the data directory; for one process on one machine',
        "postgresql": 'url = "${DATABASE_URL}"                 # postgresql://USER:PASSWORD@HOST/DATABASE',
    }[choices.store]
    mark = "" if choices.is_shared else "# "
    return f"""\
# Keys, budgets, the ledger and the log of requests.
[store]
{url}
# retention_days = 30                   # of the log of requests

# Limits that hold for several workers or nodes together need Valkey or Redis.
{mark}[shared]
{mark}url = "${{VALKEY_URL}}"                   # redis://:PASSWORD@HOST:6379/0
"""


def _providers(choices: Choices) -> Iterator[str]:
    yield "# Providers. Callers use their models as NAME/MODEL."
    for kind in dict.fromkeys(choices.providers):
        yield "\n".join(["[[providers]]", f"name = {dumps(kind)}", f"kind = {dumps(kind)}", *_settings(kind), ""])


def _settings(kind: str) -> list[str]:
    if kind == "sim":
        return ["# The simulator plays scripted answers, such as sim/hello: remove it when you have a provider."]
    if kind == "local":
        return ["# A small model that runs on this machine: local/smollm2."]
    cloud = _CLOUDS.get(kind)
    if cloud is not None:
        return list(cloud)
    lines = [f'api_key = "${{{_key_variable(kind)}}}"'] if _needs_key(kind) else ['# api_key = "${API_KEY}"']
    if kind in _ADDRESSES:
        lines.insert(0, f"base_url = {dumps(_ADDRESSES[kind])}")
    elif not _needs_key(kind):
        lines.insert(0, f"base_url = {dumps(default_base_url(kind))}")
    return [*lines, '# models = ["NAME"]                    # what GET /v1/models lists']


_CLOUDS = {
    "bedrock": (
        'region = "${AWS_REGION}"',
        "# Requests are signed with the credentials of the environment, a profile, or the machine's role.",
    ),
    "bedrock-mantle": (
        'region = "${AWS_REGION}"',
        "# Requests are signed with the credentials of the environment, a profile, or the machine's role.",
    ),
    "vertex": (
        'project = "${GOOGLE_CLOUD_PROJECT}"',
        '# location = "europe-west4"            # global, if it is absent',
        'google = { source = "adc" }             # the application default credentials',
    ),
}
"""Clouds without a key."""
_ADDRESSES = {
    "azure": "https://${AZURE_RESOURCE}.openai.azure.com",
    "openai-compatible": "${OPENAI_COMPATIBLE_URL}",
    "snowflake": "https://${SNOWFLAKE_ACCOUNT}.snowflakecomputing.com/api/v2/cortex/v1",
}


def _needs_key(kind: str) -> bool:
    """Servers that run on this machine mostly need none."""
    return kind in ("azure", "snowflake") or (
        kind != "openai-compatible" and not default_base_url(kind).startswith("http://localhost")
    )


def _key_variable(kind: str) -> str:
    return f"{kind.replace('-', '_').upper()}_API_KEY"


def _variables(kind: str) -> list[str]:
    if kind in BUILT_IN:
        return []
    lines = "\n".join(line for line in _settings(kind) if not line.startswith("#"))
    return [part.partition("}")[0] for part in lines.split("${")[1:]]


def _models(choices: Choices) -> str:
    first = next(iter(choices.providers), "openai")
    return f"""\
# A name of your own for one or several targets, which are tried in this order.
# [[models]]
# id = "fast"
# targets = [{{ provider = "{first}", model = "MODEL" }}, {{ provider = "{first}", model = "ANOTHER" }}]
"""


def _keys(choices: Choices) -> str:
    return f"""\
# Keys of callers. More of them: `streamweir keys create NAME`, while the gateway runs.
{_marked(choices.needs_key, _KEY_LINES)}"""


_KEY_LINES = (
    "[[keys]]",
    'name = "first"',
    f'key = "${{{KEY}}}"               # openssl rand -hex 24',
    "# rpm = 600                             # requests a minute",
    "# budget_usd = 25.0",
    '# budget_period = "month"',
)


def _marked(is_used: bool, lines: Sequence[str]) -> str:
    shown = (line if is_used else f"# {line.removeprefix('# ')}" for line in lines)
    return "".join(f"{line}\n" for line in shown)
