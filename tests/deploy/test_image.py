"""The image, built and run: `make test-image` runs this.

What a caller and an operator do: start it as compose.yaml and the chart do, stream an answer, stop it, start it again.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.container import DOCKERFILE, ROOT, CommandFailed, Container, Engine, Unavailable, find_engine
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import KEY, chat_request, frames_of, text_of
from support.raw_client import CutShort, RawClient

pytestmark = [pytest.mark.image, pytest.mark.long_callback("programs are waited for")]

UID = 65532
FLAGS = ("--publish", "127.0.0.1::8080", "--env", f"STREAMWEIR_KEY={KEY}")
INSIDE = """
import importlib.util, json, pathlib, shutil, sys, sysconfig
site = pathlib.Path(sysconfig.get_path("purelib"))
def flags(source):
    compiled = pathlib.Path(importlib.util.cache_from_source(str(source)))
    return int.from_bytes(compiled.read_bytes()[4:8], "little") if compiled.exists() else None
print(json.dumps({
    "tools": [name for name in ("pip", "pip3", "node", "npm", "gcc", "cc", "make", "curl") if shutil.which(name)],
    "pip": importlib.util.find_spec("pip") is not None,
    "flags": sorted({flags(path) for path in site.glob("streamweir/**/*.py")}, key=str),
    "stdlib": flags(json.__file__) is not None,
    "licences": [str(path) for path in site.glob("streamweir-*.dist-info/licenses/LICENSE")],
    "licence": pathlib.Path("/usr/share/doc/streamweir/LICENSE").exists(),
    "suid": [str(path) for path in pathlib.Path("/opt").rglob("*") if path.lstat().st_mode & 0o6000],
}))
"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    try:
        return find_engine()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    try:
        base = engine.base()
    except Unavailable as reason:
        pytest.skip(str(reason))
    name = engine.build(base)
    sizes = {each: round(engine.inspect(each)["Size"] / 1e6) for each in (base, name)}
    print(f"\nmegabytes: {sizes}")  # noqa: T201 (what this is run for)
    return name


@pytest.fixture
def volume(engine: Engine) -> Iterator[str]:
    with engine.volume() as name:
        yield f"--volume={name}:/var/lib/streamweir"


async def ready(container: Container) -> tuple[str, int]:
    """The address, when the gateway answers there."""
    address = await asyncio.to_thread(lambda: container.address)
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while True:
            with suppress(OSError, CutShort):
                async with await RawClient.open(address) as client:
                    await client.send(b"GET /ready HTTP/1.1\r\nhost: gateway\r\n\r\n")
                    if (await client.response()).status == 200:
                        return address
            await asyncio.sleep(0.1)


async def test_the_gateway_streams_without_rights_on_a_read_only_file_system(
    engine: Engine, image: str, volume: str
) -> None:
    with engine.started(image, volume, *FLAGS) as container:
        async with await RawClient.open(await ready(container)) as client:
            await client.send(chat_request(model="sim/hello", stream=True))
            reply = await client.response()
            assert reply.status == 200
            assert frames_of(reply.body)[-1] == "[DONE]"
            assert "simulator" in text_of(reply.body)
            await client.send(b"GET /console HTTP/1.1\r\nhost: gateway\r\n\r\n")
            assert (await client.response()).status == 200, "the wheel has the console"
        assert container.execute("id", "-u").strip() == str(UID)
        assert re.findall(r"^CapEff:\s+(\w+)$", container.execute("cat", "/proc/1/status"), re.MULTILINE) == ["0" * 16]
        for place in ("/opt/streamweir/x", "/etc/streamweir/x", "/x"):
            with pytest.raises(CommandFailed, match="Read-only file system"):
                container.execute("python3", "-c", f"open({place!r}, 'w')")
        found = engine.inspect(image)
        check = (found["Config"].get("Healthcheck") or found.get("Healthcheck") or {})["Test"]
        assert check[0] == "CMD"
        container.execute(*check[1:])
        assert container.stop() == 0
    with engine.started(image, volume, *FLAGS) as container:
        await ready(container)
        rows = [json.loads(line) for line in container.execute("streamweir", "logs", "--json").splitlines()]
        assert [row["request_id"] for row in rows] == [reply.header("x-request-id")], "the volume has what was recorded"
        assert container.stop() == 0


async def test_a_running_stream_ends_whole_when_the_container_is_stopped(engine: Engine, image: str) -> None:
    with engine.started(image, *FLAGS) as container:
        async with await RawClient.open(await ready(container)) as client:
            await client.send(chat_request(model="sim/lorem?words=60&pace_ms=100", stream=True))
            assert (await client.head()).status == 200
            begun = await client.chunk()
            stopping = asyncio.create_task(asyncio.to_thread(container.stop))
            assert frames_of(begun + await client.rest())[-1] == "[DONE]"
            assert await stopping == 0


async def test_several_workers_drain_too(engine: Engine, image: str) -> None:
    """The supervisor is process 1 then."""
    command = ("serve", "--config", "/etc/streamweir/streamweir.toml", "--listen", "0.0.0.0:8080", "--workers", "2")
    with engine.started(image, *FLAGS, command=command) as container:
        async with await RawClient.open(await ready(container)) as client:
            await client.send(chat_request(model="sim/hello", stream=True))
            assert frames_of((await client.response()).body)[-1] == "[DONE]"
        assert container.stop() == 0


def test_without_a_key_the_start_says_what_is_missing(engine: Engine, image: str) -> None:
    with pytest.raises(CommandFailed, match=r"keys\.first\.key: the environment variable STREAMWEIR_KEY is not set"):
        engine.once(image, "streamweir", "serve", "--config", "/etc/streamweir/streamweir.toml")


def test_the_image_has_what_the_gateway_needs_and_no_tools(engine: Engine, image: str) -> None:
    inside = json.loads(engine.once(image, "python3", "-c", INSIDE))
    assert inside["tools"] == []
    assert not inside["pip"]
    assert inside["flags"] == [1], "bytecode that is compared with nothing (unchecked-hash)"
    assert inside["stdlib"]
    assert inside["licence"]
    assert len(inside["licences"]) == 1
    assert inside["suid"] == []
    config = engine.inspect(image)["Config"]
    assert config["User"] == f"{UID}:{UID}"
    assert config["Entrypoint"] == ["streamweir"]
    assert config["StopSignal"] == "SIGTERM"
    assert set(config["Volumes"]) == {"/var/lib/streamweir"}
    assert set(config["ExposedPorts"]) == {"8080/tcp"}
    assert config["Labels"]["org.opencontainers.image.title"] == "Streamweir"


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", ["runtime", "local", "weights"])
def test_each_platform_has_a_wheel_for_every_pin(name: str, processor: str, tmp_path: Path) -> None:
    """With its hash, for the Python of the image: nothing is compiled there. The base has glibc 2.41."""
    (python,) = re.findall(r"^ARG BASE=\S+/python:([\d.]+)-slim-trixie$", DOCKERFILE.read_text(), re.MULTILINE)
    platforms = [f"--platform=manylinux_2_{glibc}_{processor}" for glibc in range(17, 42)]
    flags = ["--require-hashes", "--no-deps", "--only-binary=:all:", f"--python-version={python}", *platforms]
    pins = ROOT / f"requirements/{name}.txt"
    command = [sys.executable, "-m", "pip", "download", "-q", *flags, "-r", str(pins), "-d", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603
    assert done.returncode == 0, done.stderr
    pinned = re.findall(r"^[\w.-]+==.*$", pins.read_text(), re.MULTILINE)
    assert len(list(tmp_path.glob("*.whl"))) >= len([line for line in pinned if ";" not in line])
