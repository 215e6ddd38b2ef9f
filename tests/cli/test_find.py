"""Which gateway a command is about: the order, and what is never guessed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from streamweir.cli.find import CommandEnvironment, LocalGateway, NotFound, find_gateway
from streamweir.cli.local_key import development_key, gateway_url
from streamweir.cli.probe import local_url
from streamweir.server.process.run_file import RUNTIME_DIR, HeldRunFiles, RunFile


class Machine:
    """Folders as a user has them, and run files of gateways that this process holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.runtime, self.home = folder / "work", folder / "runtime", folder / "home"
        for each in (self.work, self.runtime, self.home / "streamweir"):
            each.mkdir(mode=0o700, parents=True)
        self.around = CommandEnvironment(
            environ={"STREAMWEIR_RUNTIME_DIR": str(self.runtime), "XDG_DATA_HOME": str(self.home)},
            folder=self.work,
            uid=os.geteuid(),
        )
        self.held = HeldRunFiles()

    def run(self, name: str, pid: int, config_file: Path | None = None, env_file: Path | None = None) -> Path:
        """Its data directory."""
        data = self.folder / name
        data.mkdir(mode=0o700, exist_ok=True)
        content = RunFile(
            pid=pid,
            version="1",
            started_ms=pid,
            node="n",
            urls=(f"http://127.0.0.1:{pid}",),
            health_url=None,
            workers=1,
            data_dir=str(data),
            config_file=str(config_file) if config_file is not None else None,
            env_file=str(env_file) if env_file is not None else None,
            store="sqlite x",
        )
        assert self.held.write(content, [data, self.runtime]) == []
        return data

    def file(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o600)
        return path

    def find(self, config: str | None = None, data: Path | None = None) -> LocalGateway:
        return find_gateway(self.around, Path(config) if config is not None else None, data)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.held.remove()


def test_the_order(machine: Machine) -> None:
    """From the last to the first: each comes before those that are there already."""
    own = machine.home / "streamweir"
    assert machine.find() == LocalGateway(data_dir=own, is_named=False)
    machine.file("home/streamweir/streamweir.db")
    assert machine.find() == LocalGateway(data_dir=own)
    machine.file("work/var/streamweir.db")
    assert machine.find() == LocalGateway(data_dir=machine.work / "var")
    machine.file("work/streamweir.toml")
    assert machine.find() == LocalGateway(data_dir=machine.work / "var", config_file=Path("streamweir.toml"))
    config, variables = machine.file("etc/c.toml"), machine.file("etc/env")
    data = machine.run("data", 1, config, variables)
    found = machine.find()
    assert found.running is not None
    assert (found.data_dir, found.config_file, found.env_file) == (data, config, variables)
    assert machine.find(data=machine.folder / "other") == LocalGateway(data_dir=machine.folder / "other")


def test_a_configuration_alone_has_its_data_with_the_user(machine: Machine) -> None:
    machine.file("work/streamweir.toml")
    own = machine.home / "streamweir"
    assert machine.find() == LocalGateway(data_dir=own, config_file=Path("streamweir.toml"))
    assert machine.find("other.toml") == LocalGateway(data_dir=own, config_file=Path("other.toml"))


def test_one_option_completes_what_the_other_leaves_open(machine: Machine) -> None:
    config, other = machine.file("work/c.toml"), machine.file("work/d.toml")
    data = machine.run("data", 1, config)
    machine.run("more", 2, other)
    by_config = machine.find("c.toml")
    assert (by_config.data_dir, by_config.running and by_config.running.file.pid) == (data, 1)
    by_data = machine.find(data=Path("../data"))
    assert (by_data.config_file, by_data.running and by_data.running.file.pid) == (config, 1)
    assert by_data.data_dir.samefile(data)
    both = machine.find("d.toml", data)
    assert both == LocalGateway(data_dir=data, config_file=Path("d.toml")), "not what the gateway runs with"


def test_several_gateways_are_never_guessed(machine: Machine) -> None:
    first, second = machine.run("a", 1), machine.run("b", 2)
    with pytest.raises(NotFound) as raised:
        machine.find()
    assert str(raised.value) == (
        f"2 gateways are running: choose one with --data-dir {first} (pid 1, http://127.0.0.1:1); "
        f"--data-dir {second} (pid 2, http://127.0.0.1:2)"
    )
    found = machine.find(data=second)
    assert found.running is not None
    assert found.running.file.pid == 2


@pytest.mark.parametrize("by", ["data", "var", "configuration"])
def test_of_several_gateways_the_one_of_the_working_folder_is_meant(by: str, machine: Machine) -> None:
    machine.run("elsewhere", 1, machine.file("etc/c.toml"))
    name = {"data": "work", "var": "work/var", "configuration": "other"}[by]
    data = machine.run(name, 2, machine.file("work/c.toml") if by == "configuration" else None)
    found = machine.find()
    assert found.running is not None
    assert (found.running.file.pid, found.data_dir.samefile(data)) == (2, True)
    machine.run("third", 3, machine.file("work/d.toml"))
    with pytest.raises(NotFound, match="2 gateways are running"):
        machine.find()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts on the gateways of others")
def test_root_does_not_read_a_configuration_that_the_service_can_change(machine: Machine) -> None:
    """It may name commands for secrets, which would be run as root."""
    config = machine.file("etc/c.toml")
    data = machine.run("data", 1, config)
    for path in (data, *data.iterdir()):
        os.chown(path, 54_321, -1)
    assert machine.find(data=data).config_file == config, "root's own"
    os.chown(config, 54_321, -1)
    with pytest.raises(NotFound, match=r"another user can change: run this command as the user 54321"):
        machine.find(data=data)
    assert machine.find(str(config), data).running is not None, "root has named it"


def test_the_address_and_the_key_of_the_gateway_that_runs(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNTIME_DIR, str(machine.runtime))
    monkeypatch.chdir(machine.work)
    (machine.work / "var").mkdir()
    (machine.work / "var" / "development.key").write_text("of-var\n")
    assert (gateway_url(), development_key("http://127.0.0.1:8080")) == ("http://127.0.0.1:8080", "of-var")
    data = machine.run("data", 4711)
    assert gateway_url() == "http://127.0.0.1:4711"
    assert development_key("http://localhost:4711/v1") == "", "it has keys of its own, and that of var is another's"
    (data / "development.key").write_text("of-data\n")
    assert development_key("http://localhost:4711/v1") == "of-data"
    assert development_key("http://10.0.0.1:4711/v1") == ""
    assert development_key("http://[") == ""
    machine.run("more", 4712)
    with pytest.raises(NotFound, match=r"2 gateways are running: choose one with --base-url http://127.0.0.1:4711 "):
        gateway_url()
    monkeypatch.chdir(data)
    assert gateway_url() == "http://127.0.0.1:4711", "that of the working folder"


def test_where_a_wildcard_is_reached() -> None:
    assert local_url("http://0.0.0.0:80") == "http://127.0.0.1:80"
    assert local_url("https://[::]:80") == "https://[::1]:80"
    assert local_url("http://10.0.0.1:80") == "http://10.0.0.1:80"


def test_an_option_for_the_variables_wins(machine: Machine) -> None:
    machine.run("data", 1, machine.file("etc/c.toml"), machine.file("etc/env"))
    found = find_gateway(machine.around, env_file=Path("mine"))
    assert found.env_file == Path("mine")
    assert structs.replace(found, env_file=None).running is not None
