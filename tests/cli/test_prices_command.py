"""`streamweir prices`: what it shows, and an update from a real server, also from one that means no good."""

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.commands import prices as prices_command
from streamweir.cli.download import DownloadFailed, check_address, download
from streamweir.cli.main import main
from streamweir.policy.pricing.pricelist import encode_list
from streamweir.store.prices.data import read_data
from streamweir.store.prices.file import builtin_version, load_prices
from support.certificate import make_certificate

TODAY = str(datetime.now(UTC).date())
CONFIG = """
[[providers]]
name = "eu"
kind = "azure"
base_url = "https://eu.openai.azure.com"
api_key = "${A_VARIABLE_THAT_NOBODY_HAS_SET}"

[[providers]]
name = "direct"
kind = "openai"
api_key = "${A_VARIABLE_THAT_NOBODY_HAS_SET}"

[[models]]
id = "best"
targets = [{ provider = "direct", model = "gpt-4o" }, { provider = "direct", model = "gpt-4o-2024-05-13" }]

[[models]]
id = "cheap"
targets = [{ provider = "eu", model = "our-deployment" }]
price = { input = 0.1, output = 0.4, cache_read = 0.025 }

[[models]]
id = "unknown"
targets = [{ provider = "direct", model = "gpt-4o" }, { provider = "eu", model = "our-deployment" }]
"""


def run(*arguments: str, data_dir: Path) -> Result:
    """An update makes the data directory."""
    create = ["--create"] if arguments[0] == "update" else []
    return CliRunner().invoke(main, ["prices", *arguments, *create, "--data-dir", str(data_dir)])


def test_a_data_directory_with_a_wrong_name_is_not_made(tmp_path: Path) -> None:
    for words in (["show"], ["update"]):
        result = CliRunner().invoke(main, ["prices", *words, "--data-dir", str(tmp_path / "dta")])
        assert result.exit_code == 1
        assert f"{tmp_path}/dta does not exist" in result.stderr
    assert list(tmp_path.iterdir()) == []


def data_set(**rates: Any) -> bytes:
    prices = {"input_mtok": 2.5, "cache_read_mtok": 1.25, "output_mtok": 10} | rates
    models = [
        {"id": "gpt-4o", "match": {"equals": "gpt-4o"}, "prices": prices},
        {"id": "gpt-9", "match": {"equals": "gpt-9"}, "prices": {"input_mtok": 1, "output_mtok": 2}},
    ]
    return json.dumps([{"id": "openai", "models": models}]).encode()


# Show.


def test_a_table_with_the_version(tmp_path: Path) -> None:
    result = run("show", "gpt-4o-2024-08-06", "--provider", "openai", data_dir=tmp_path)
    assert result.exit_code == 0
    head, row, foot = result.output.splitlines()
    assert re.split(r"\s{2,}", head) == [
        "PROVIDER", "MODEL", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "SOURCE", "MORE",
    ]  # fmt: skip
    assert re.split(r"\s{2,}", row)[:7] == ["openai", "gpt-4o", "$2.50", "$10.00", "$1.25", "-", "list"]
    assert f"price list {builtin_version()} (built-in: genai-prices" in foot


def test_all_models_and_those_of_a_kind(tmp_path: Path) -> None:
    lines = run("show", data_dir=tmp_path).output.splitlines()
    assert len(lines) > 1500
    assert any(line.split()[:2] == ["sim", "*"] and "built-in" in line for line in lines)
    google = run("show", "--provider", "gemini", data_dir=tmp_path).output.splitlines()
    assert {line.split()[0] for line in google[1:-1]} == {"google"}
    assert google == run("show", "--provider", "google", data_dir=tmp_path).output.splitlines()


def test_no_such_model(tmp_path: Path) -> None:
    result = run("show", "no-such-model-at-all", data_dir=tmp_path)
    assert result.exit_code == 0
    assert "no such model" in result.output


def test_tiers_and_fees_are_shown(tmp_path: Path) -> None:
    output = run("show", "gemini-2.5-pro", "sonar-pro", data_dir=tmp_path).output
    assert "above 200,000 tokens $2.50, $15.00" in output
    assert "$0.014 a request" in output


def test_a_missing_price_is_shown_as_such(tmp_path: Path) -> None:
    output = run("show", "mistral-ocr-2512", "--provider", "mistral", data_dir=tmp_path).output
    assert "no price is known" in output


def test_json(tmp_path: Path) -> None:
    names = ("gpt-4o-mini", "text-embedding", "mistral-ocr")
    document = json.loads(run("show", *names, "--json", data_dir=tmp_path).output)
    assert (document["version"], document["file"]) == (builtin_version(), "built-in")
    assert (document["currency"], document["unit"]) == ("USD", "1M tokens")
    rows = {(row["provider"], row["model"]): row for row in document["models"]}
    mini = rows["openai", "gpt-4o-mini"]
    assert {name: mini["pricing"][name] for name in ("input", "output", "cache_read")} == {
        "input": 0.15,
        "output": 0.6,
        "cache_read": 0.075,
    }
    assert mini["context_window"] == 128_000
    assert rows["openai", "text-embedding-3-small"]["pricing"] == {"input": 0.02, "output": 0}
    assert rows["mistral", "mistral-ocr-2512"]["pricing"] is None


def test_aliases_and_the_operators_prices_without_the_keys_of_the_providers(tmp_path: Path) -> None:
    file = tmp_path / "streamweir.toml"
    file.write_text(CONFIG)
    result = run("show", "best", "cheap", "unknown", "--config", str(file), "--json", data_dir=tmp_path)
    rows = {row["model"]: row for row in json.loads(result.output)["models"] if row["provider"] == "(alias)"}
    dearest = {"input": 5, "output": 15, "cache_read": 5, "per_search": 0.01}
    assert rows["best"]["pricing"] == dearest, "of each rate"
    assert rows["cheap"] == {
        "provider": "(alias)",
        "model": "cheap",
        "source": "config",
        "context_window": None,
        "pricing": {"input": 0.1, "output": 0.4, "cache_read": 0.025},
    }
    assert rows["unknown"]["pricing"] is None


def test_the_price_of_an_alias_is_the_highest_of_all_that_can_answer(tmp_path: Path) -> None:
    file = tmp_path / "streamweir.toml"
    more = """
[[models]]
id = "backed"
targets = [{ provider = "TARGET", model = "gpt-4o-mini" }]
fallbacks = ["cheap"]
context_fallbacks = ["best"]
""".replace("TARGET", re.findall(r'provider = "([^"]+)"', CONFIG)[0])
    file.write_text(CONFIG + more)
    result = run("show", "best", "backed", "--config", str(file), "--json", data_dir=tmp_path)
    rows = {row["model"]: row for row in json.loads(result.output)["models"] if row["provider"] == "(alias)"}
    assert rows["backed"]["pricing"] == rows["best"]["pricing"]
    assert rows["backed"]["source"] == "config", "that of a fallback is the operator's"


@pytest.mark.parametrize(
    "text", ["[[models]]\nid = 1\n", "[[models", '[[models]]\nid = "m"\ntargets = []\nprice = { input = -1 }\n']
)
def test_a_configuration_with_mistakes(tmp_path: Path, text: str) -> None:
    file = tmp_path / "streamweir.toml"
    file.write_text(text)
    result = run("show", "--config", str(file), data_dir=tmp_path)
    assert result.exit_code == 1
    assert str(file) in result.output
    assert "Traceback" not in result.output


def test_a_broken_file_in_the_data_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("{")
    result = run("show", data_dir=tmp_path)
    assert result.exit_code == 1
    assert "prices update" in result.output


# Update from a file.


def updated(tmp_path: Path, content: bytes) -> Result:
    file = tmp_path / "new.json"
    file.write_bytes(content)
    return run("update", "--from", str(file), data_dir=tmp_path / "data")


def test_an_update_reports_its_changes(tmp_path: Path) -> None:
    assert "gone" in updated(tmp_path, data_set()).output
    result = updated(tmp_path, data_set(input_mtok=3, output_mtok=10))
    assert result.output.splitlines()[:-1] == [
        "dearer  openai/gpt-4o  $2.50 in, $10.00 out -> $3.00 in, $10.00 out",
        "0 new, 1 dearer, 0 cheaper, 0 mixed, 0 gone",
    ]
    assert updated(tmp_path, data_set(input_mtok=3, output_mtok=9)).output.startswith("cheaper openai/gpt-4o")
    assert updated(tmp_path, data_set(input_mtok=2, output_mtok=10)).output.startswith("mixed   openai/gpt-4o")
    assert updated(tmp_path, data_set(input_mtok=2, output_mtok=10, cache_read_mtok=2)).output.startswith("dearer")
    assert updated(tmp_path, data_set(output_mtok=None)).output.splitlines()[0] == "gone    openai/gpt-4o"
    again = updated(tmp_path, data_set())
    assert again.output.splitlines()[0] == "new     openai/gpt-4o  $2.50 in, $10.00 out"
    assert "0 new, 0 dearer, 0 cheaper, 0 mixed, 0 gone" in updated(tmp_path, data_set()).output


def test_an_update_is_used_from_then_on(tmp_path: Path) -> None:
    assert updated(tmp_path, data_set()).exit_code == 0
    price_list, file = load_prices(tmp_path / "data")
    assert file == tmp_path / "data" / "prices.json"
    assert re.fullmatch(rf"{TODAY}\.[0-9a-f]{{8}}", price_list.version)
    shown = run("show", "--json", data_dir=tmp_path / "data")
    assert [row["model"] for row in json.loads(shown.output)["models"]][-2:] == ["gpt-4o", "gpt-9"]
    assert json.loads(shown.output)["file"] == str(file)


def test_the_same_data_have_the_same_version(tmp_path: Path) -> None:
    updated(tmp_path, data_set())
    first = load_prices(tmp_path / "data")[0].version
    updated(tmp_path, data_set(input_mtok=3))
    assert load_prices(tmp_path / "data")[0].version != first
    updated(tmp_path, data_set())
    assert load_prices(tmp_path / "data")[0].version == first


def own_list(version: str) -> bytes:
    return encode_list(read_data(data_set(), version=version, source="ours", licence=""))


def test_a_list_of_our_own_form_is_taken_with_its_own_version(tmp_path: Path) -> None:
    assert updated(tmp_path, own_list(TODAY)).exit_code == 0
    assert load_prices(tmp_path / "data")[0].version == TODAY


@pytest.mark.parametrize("version", ["2020-01-01", "2998-01-01"])
def test_a_list_of_the_past_or_of_the_future_is_not_taken(tmp_path: Path, version: str) -> None:
    result = updated(tmp_path, own_list(version))
    assert result.exit_code == 1
    assert version in result.output
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"<html>",
        b"[]",
        data_set(input_mtok=-1),
        own_list(TODAY).replace(b":2.5,", b":-2.5,"),
        own_list(TODAY)[:-10],
    ],
)
def test_what_is_no_list_changes_nothing(tmp_path: Path, content: bytes) -> None:
    assert updated(tmp_path, data_set()).exit_code == 0
    before = (tmp_path / "data" / "prices.json").read_bytes()
    result = updated(tmp_path, content)
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert (tmp_path / "data" / "prices.json").read_bytes() == before


def test_a_broken_list_is_mended_by_an_update(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "prices.json").write_text("{")
    assert updated(tmp_path, data_set()).exit_code == 0
    assert load_prices(tmp_path / "data")[1] is not None


def test_a_file_that_is_not_there_and_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    assert "no such file" in run("update", "--from", str(tmp_path / "none"), data_dir=tmp_path).output
    (tmp_path / "plain").write_text("")
    (tmp_path / "new.json").write_bytes(data_set())
    result = run("update", "--from", str(tmp_path / "new.json"), data_dir=tmp_path / "plain")
    assert result.exit_code == 1
    assert "cannot be" in result.output


# Update from a server.


class Site:
    """A server on https whose certificate the program trusts."""

    def __init__(self, folder: Path) -> None:
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda _: None
        self.paths: list[str] = []
        self.certificate = make_certificate(folder)
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.paths.append(self.path)
                site.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._server.socket = self.certificate.server_context().wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/data.json"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    running = Site(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(running.certificate.cert_file))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    try:
        yield running
    finally:
        running.close()


def answering(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        with suppress(OSError):  # hung up on
            request.wfile.write(body)

    return answer


def test_the_default_is_where_the_data_set_says_it_is() -> None:
    check_address(prices_command.DATA_SET)
    assert prices_command.DATA_SET.startswith("https://raw.githubusercontent.com/pydantic/genai-prices/")


def test_an_update_from_a_server(tmp_path: Path, site: Site) -> None:
    site.answer = answering(data_set())
    result = run("update", "--from", f"{site.url}?token=secret", data_dir=tmp_path / "data")
    assert result.exit_code == 0, result.output
    price_list, _ = load_prices(tmp_path / "data")
    assert price_list.source == site.url, "without what may be a secret"


def test_a_redirect_to_https_is_followed(tmp_path: Path, site: Site) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        if request.path == "/data.json":
            answering(b"moved", 302, location="/there.json")(request)
        else:
            answering(data_set())(request)

    site.answer = answer
    assert run("update", "--from", site.url, data_dir=tmp_path / "data").exit_code == 0
    assert site.paths == ["/data.json", "/there.json"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answering(b"", 302, location="http://127.0.0.1:9/data.json"), "only https"),
        (answering(b"", 302, location="file:///etc/passwd"), "only https|not an address"),
        (answering(b"", 302, location="https://user:secret@127.0.0.1/"), "password"),
        (answering(b"", 302, location="/data.json"), "too many redirects"),
        (answering(b"", 302), "status 302"),
        (answering(b"no", 404), "status 404"),
        (answering(b"no", 500), "status 500"),
        (answering(b"garbage"), "genai-prices"),
        (answering(data_set(input_mtok=-2.5)), "is no rate"),
        (answering(data_set(), content_encoding="gzip"), "packed"),
        (answering(b"[" * 1_000_000), "genai-prices"),
    ],
)
def test_a_server_that_means_no_good_changes_nothing(
    tmp_path: Path, site: Site, answer: Callable[[BaseHTTPRequestHandler], None], reason: str
) -> None:
    site.answer = answer
    result = run("update", "--from", site.url, data_dir=tmp_path / "data")
    assert result.exit_code == 1
    assert re.search(reason, result.output)
    assert "secret" not in result.output
    assert not (tmp_path / "data" / "prices.json").exists()


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    with suppress(OSError):
        while True:
            request.wfile.write(b" " * 65_536)


def cut_short(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("content-length", "100000")
    request.end_headers()
    request.wfile.write(data_set())


def test_an_endless_answer_is_left(site: Site) -> None:
    site.answer = endless
    with pytest.raises(DownloadFailed, match="larger than"):
        download(site.url, 1_000_000)
    with pytest.raises(DownloadFailed, match="too long"):
        download(site.url, 1 << 40, total_s=0.0)


def test_an_answer_that_was_cut_short(site: Site) -> None:
    site.answer = cut_short
    with pytest.raises(DownloadFailed, match="cut short"):
        download(site.url, 1_000_000)


def test_a_silent_server_is_left(site: Site) -> None:
    gone = threading.Event()

    def silent(_: BaseHTTPRequestHandler) -> None:
        gone.wait(30)

    site.answer = silent
    try:
        with pytest.raises(DownloadFailed, match="took too long"):
            download(site.url, 1_000_000, idle_s=0.05)
    finally:
        gone.set()


def test_a_server_that_is_not_trusted_or_not_there(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.answer = answering(data_set())
    monkeypatch.setenv("SSL_CERT_FILE", ssl.get_default_verify_paths().openssl_cafile)
    with pytest.raises(DownloadFailed, match="certificate is not trusted"):
        download(site.url, 1_000_000)
    with pytest.raises(DownloadFailed, match="cannot be reached"):
        download("https://127.0.0.1:1/", 1_000_000)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/data.json",
        "ftp://example.com/data.json",
        "file:///etc/passwd",
        "data:,[]",
        "https://",
        "https://[::1/",
        "https://example.com/a b",
        "https://example.com/\r\nhost: a",
        "https://name:secret@example.com/",
    ],
)
def test_only_plain_addresses_on_https(url: str) -> None:
    with pytest.raises(DownloadFailed) as caught:
        check_address(url)
    assert "secret" not in str(caught.value)
