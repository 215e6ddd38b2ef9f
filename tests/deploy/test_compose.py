"""compose.yaml: it keeps the schema, all that it mounts exists, no secret is in it, and its configuration is valid."""

import json
import os
import re
import shlex
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamweir.cli.commands.serve import command as serve
from streamweir.config.load import load_config
from support.chart import ROOT, compose_violations, why_no_schemas

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SCRIPT = ROOT / "deploy/compose/make-secrets.sh"
FOLDER = "./deploy/compose/secrets/"
OWN = "gateway"
WITHOUT_PROGRAMS = {"otel-collector"}
"""Its image contains nothing that could ask it."""
DURATION = re.compile(r"(\d+)s")

each_service = pytest.mark.parametrize("name", SERVICES)


def make_secrets(folder: Path) -> Path:
    """By the script, as it lies in the repository; in a folder of the test."""
    copied = folder / SCRIPT.name
    copied.write_text(SCRIPT.read_text())
    subprocess.run(["sh", str(copied)], check=True, capture_output=True, timeout=60)  # noqa: S603, S607
    return folder / "secrets"


@pytest.mark.skipif(why_no_schemas() is not None, reason=why_no_schemas() or "")
def test_the_file_keeps_the_schema_of_compose() -> None:
    assert compose_violations(COMPOSE) == []
    assert compose_violations({**COMPOSE, "services": {"a": {"imag": "b"}}}), "a mistyped member would be found"


@each_service
def test_what_is_mounted_exists(name: str) -> None:
    for mount in SERVICES[name].get("volumes", []):
        source, _, rest = mount.partition(":")
        if source.startswith("."):
            assert (ROOT / source).exists(), source
            assert rest.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]
    assert set(SERVICES[name].get("secrets", [])) <= COMPOSE["secrets"].keys()


@each_service
def test_each_service_is_checked_and_waits_for_healthy_ones(name: str) -> None:
    service = SERVICES[name]
    if name in WITHOUT_PROGRAMS:
        assert service["healthcheck"] == {"disable": True}
    else:
        assert service["healthcheck"]["test"][0] == "CMD"
    for other, condition in service.get("depends_on", {}).items():
        assert condition == {"condition": "service_healthy"}
        assert other not in WITHOUT_PROGRAMS


@each_service
def test_ports_are_open_to_this_machine_alone_and_rights_cannot_grow(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]


@each_service
def test_no_secret_is_in_the_file(name: str) -> None:
    for variable in SERVICES[name].get("environment", {}):
        assert variable.endswith("_FILE") or not re.search("PASSWORD|SECRET|KEY|TOKEN", variable)


def test_the_script_makes_each_secret_once(tmp_path: Path) -> None:
    folder = make_secrets(tmp_path)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    assert {entry["file"] for entry in COMPOSE["secrets"].values()} == {f"{FOLDER}{name}" for name in made}
    assert all(len(text) >= 48 for text in made.values())
    assert len(set(made.values())) == len(made)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}
    make_secrets(tmp_path)
    assert {path.name: path.read_text() for path in folder.iterdir()} == made
    assert os.path.normpath(FOLDER) in [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]


def test_the_gateway_takes_its_configuration_and_may_drain(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path)
    (mount,) = [each for each in SERVICES[OWN]["volumes"] if each.endswith("/etc/streamweir/streamweir.toml:ro")]
    text = (ROOT / mount.split(":")[0]).read_text()
    named = set(re.findall(r'"/run/secrets/(\w+)"', text))
    assert named == set(SERVICES[OWN]["secrets"])
    file = tmp_path / "streamweir.toml"
    file.write_text(text.replace("/run/secrets", str(secrets)))
    config = load_config(file, {})
    assert str(config.store.url) == (secrets / "store_url").read_text()
    assert (secrets / "postgres_password").read_text() in str(config.store.url)
    (grace,) = DURATION.findall(SERVICES[OWN]["stop_grace_period"])
    assert int(grace) > config.server.timeouts.lame_duck_s + config.server.timeouts.drain_s + 10
    (metrics,) = [key for key in config.keys if key.scopes != ("chat", "models")]
    assert metrics.scopes == ("metrics",), "Prometheus needs no more"
    assert str(metrics.key) == (secrets / "streamweir_metrics").read_text()


def test_the_command_is_one_of_the_program_and_listens_where_it_is_asked() -> None:
    name, *words = SERVICES[OWN]["command"]
    context = serve.make_context(serve.name, words)
    assert name == serve.name
    (published,) = SERVICES[OWN]["ports"]
    assert context.params["listen"].rpartition(":")[2] == published.rpartition(":")[2]


def test_the_image_and_the_file_check_the_gateway_in_the_same_way() -> None:
    """An image in the OCI format has no health check: so the file has it, too."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    (flags, command) = re.findall(r"^HEALTHCHECK (.*?) CMD (\[.*\])$", text, re.MULTILINE)[0]
    own = SERVICES[OWN]["healthcheck"]
    assert own["test"] == ["CMD", *json.loads(command)]
    assert flags.split() == [
        f"--interval={own['interval']}",
        f"--timeout={own['timeout']}",
        f"--start-period={own['start_period']}",
        f"--retries={own['retries']}",
    ]


def test_the_image_is_built_from_what_the_package_needs() -> None:
    """An entry that is missing in .dockerignore is found when the image is built; one too many never."""
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"], "src", "pyproject.toml", "requirements"} <= {*allowed}
    copied = [
        word
        for line in re.findall(r"^COPY (?!--)(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        for word in shlex.split(line)[:-1]
    ]
    assert all(any(source == "." or source.startswith(entry) for entry in allowed) for source in copied)
    assert not [entry for entry in allowed if entry.startswith(("tests", "var", ".venv", "deploy/compose"))]
