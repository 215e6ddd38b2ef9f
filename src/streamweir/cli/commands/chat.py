"""`streamweir chat`: sends a prompt to a model and streams the answer.

The prompt is an argument or standard input; at a terminal without a prompt, a conversation starts. A terminal shows the
answer with its reasoning and its calls, and a summary line on standard error; a pipe gets the plain answer. Ctrl-C
cancels the answer and closes the connection.
Exit status: 0 complete answer, 1 no complete answer, 2 wrong usage, 130 after Ctrl-C.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from msgspec import Struct, field

from streamweir.cli.find import NotFound
from streamweir.cli.local_key import DEFAULT_URL, development_key, gateway_url
from streamweir.cli.view.table import for_terminal
from streamweir.frontends.chat.table import DIALECTS

if TYPE_CHECKING:
    from streamweir.cli.view.chat import Timing, View
    from streamweir.client import Client, ClientError, Completion
    from streamweir.policy.pricing.prices import Rates

INTERRUPTED = 130
_CANCELLED = "Cancelled: the connection is closed."


def _default_url() -> str:
    try:
        return gateway_url()
    except NotFound as reason:
        raise click.ClickException(str(reason)) from None


@click.command("chat", short_help="Send a prompt to a model and stream the answer.")
@click.argument("model")
@click.argument("prompt", required=False)
@click.option(
    "--base-url",
    envvar="STREAMWEIR_URL",
    default=_default_url,
    show_default=f"the running gateway, else {DEFAULT_URL}",
    help="Base URL of the endpoint. A bare host is a gateway: --dialect selects its path.",
)
@click.option("--key", envvar="STREAMWEIR_KEY", help="API key.  [default: that of a gateway on this machine]")
@click.option("--dialect", type=click.Choice(sorted(DIALECTS)), help="Dialect of the endpoint.  [default: openai]")
@click.option("--system", metavar="TEXT", help="System prompt.")
@click.option("--temperature", type=click.FloatRange(0, 2))
@click.option("--max-tokens", type=click.IntRange(1))
@click.option("--resume", is_flag=True, help="Go on with the answer after a lost connection.")
@click.option("--raw", is_flag=True, help="Show the raw frames with their times.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole completion as JSON.")
def command(
    model: str,
    prompt: str | None,
    base_url: str,
    key: str | None,
    dialect: str | None,
    system: str | None,
    temperature: float | None,
    max_tokens: int | None,
    resume: bool,
    raw: bool,
    as_json: bool,
) -> None:
    """Send PROMPT to MODEL and stream the answer.

    Without PROMPT, the prompt is read from standard input. At a terminal this starts a conversation; an empty line or
    Ctrl-D ends it.

    Exit status: 0 complete answer, 1 no complete answer, 2 wrong usage, 130 after Ctrl-C.
    """
    if raw and as_json:
        raise click.UsageError("--raw and --json cannot be combined")
    try:
        from streamweir.client import Client
    except ImportError:
        raise click.ClickException("streamweir chat needs httpx2: install streamweir[client]") from None
    options = {"temperature": temperature, "max_tokens": max_tokens}
    root = _root_of(base_url, dialect)
    secret = key if key is not None else development_key(base_url)
    try:
        client = Client(root, api_key=secret, dialect=dialect or "openai", resume=resume)
    except ValueError as reason:
        raise click.UsageError(str(reason)) from None
    chat = Chat(
        client=client,
        model=model,
        parameters={name: value for name, value in options.items() if value is not None},
        form="raw" if raw else "json" if as_json else "text",
        root=root,
        key=secret,
    )
    if system is not None:
        chat.messages.append({"role": "system", "content": system})
    with client:
        if prompt is None and sys.stdin is not None and sys.stdin.isatty():
            chat.converse()
        else:
            chat.ask_once(prompt if prompt is not None else _read_all())


class Chat(Struct):
    """A conversation: the client, the model, and how answers are shown."""

    client: "Client"
    model: str
    parameters: Mapping[str, Any]
    form: str
    root: str
    key: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    rates: "Rates | None" = None
    rates_loaded: bool = False

    def ask_once(self, prompt: str) -> None:
        from streamweir.client import ClientError

        if not prompt.strip():
            raise click.UsageError("the prompt is empty")
        try:
            self._ask(prompt)
        except ClientError as error:
            raise click.ClickException(_told(error)) from None
        except KeyboardInterrupt:
            click.echo(_CANCELLED, err=True)
            sys.exit(INTERRUPTED)

    def converse(self) -> None:
        """Until an empty line, Ctrl-D, or Ctrl-C at the prompt. Failed and cancelled turns are removed."""
        from streamweir.client import ClientError

        with suppress(ImportError):
            import readline  # noqa: F401 (lines can be edited once it is imported)
        while prompt := _read_line():
            before = len(self.messages)
            try:
                answer = self._ask(prompt)
            except ClientError as error:
                click.echo(f"Error: {_told(error)}", err=True)
                del self.messages[before:]
            except KeyboardInterrupt:
                click.echo(_CANCELLED, err=True)
                del self.messages[before:]
            else:
                self.messages.append(answer.message)

    def _ask(self, prompt: str) -> "Completion":
        from streamweir.cli.view.chat import Timing

        self.messages.append({"role": "user", "content": prompt})
        timing = Timing(time.monotonic)
        view = self._view(timing)
        timing.begin()
        try:
            with self.client.stream(
                model=self.model, messages=self.messages, tap=view.tap, **self.parameters
            ) as stream:
                for event in stream:
                    timing.record_event(event)
                    view.feed(event)
                timing.end()
                answer = stream.so_far
        finally:
            view.leave()
        view.end(answer)
        self._show_result(timing, answer)
        return answer

    def _view(self, timing: "Timing") -> "View":
        from streamweir.cli.view import chat

        is_terminal = sys.stdout.isatty()
        if self.form == "raw":
            return chat.RawView(timing, is_terminal=is_terminal, secret=self.key)
        if self.form == "json":
            return chat.JsonView()
        return chat.terminal_view() if is_terminal else chat.PlainView()

    def _show_result(self, timing: "Timing", answer: "Completion") -> None:
        """The summary line, at a terminal only."""
        if not sys.stderr.isatty():
            return
        from streamweir.cli.chat_cost import cost_nanousd, load_rates
        from streamweir.cli.view.chat import summary

        if not self.rates_loaded:
            self.rates, self.rates_loaded = load_rates(self.root, self.key, self.model), True
        line = summary(timing, answer.usage, cost_nanousd(answer.usage, self.rates), answer.request_id)
        click.secho(line, dim=True, err=True)


def _told(error: "ClientError") -> str:
    from streamweir.client import Unreachable

    what_to_do = ". Start `streamweir serve`, or name another endpoint with --base-url"
    return for_terminal(str(error)) + (what_to_do if isinstance(error, Unreachable) else "")


def _root_of(base_url: str, dialect: str | None) -> str:
    """The base URL; for a gateway without a path, the path of the dialect is added."""
    base_url = base_url.rstrip("/")
    if urlsplit(base_url).path:
        return base_url
    return f"{base_url}/v1" if dialect is None else f"{base_url}/{dialect}/v1"


def _read_all() -> str:
    """Standard input, which may be closed or not text."""
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError("standard input is not UTF-8 text") from None
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _read_line() -> str | None:
    """None at the end of the conversation."""
    prompt = "> "
    if not sys.stdout.isatty():
        click.echo(prompt, nl=False, err=True)
        prompt = ""
    try:
        return input(prompt).strip()
    except EOFError:
        click.echo(err=True)
        return None
    except KeyboardInterrupt:
        click.echo(err=True)
        sys.exit(INTERRUPTED)
