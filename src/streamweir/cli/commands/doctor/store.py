"""Tries what a gateway stores: the database and its schema, the journal's disk, and Valkey. Nothing is changed there.

A file in the journal's folder is written, synced and removed: every request waits for such a sync.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from streamweir.cli.commands.doctor.finding import Finding, fail, ok, warn
from streamweir.config.model import Config
from streamweir.store.db.base import StoreError, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import OtherSchema, open_store, sqlite_path
from streamweir.store.requests.instances import now_of

_WARN_SYNC_S = 0.05
_SYNCS = 5
_WARN_FREE_BYTES, _MIN_FREE_BYTES = 1 << 30, 100 << 20
_MAX_SKEW_MS = 5000
_TIMEOUT_S = 10.0


async def check_database(config: Config, data_dir: Path) -> list[Finding]:
    if config.store.is_none:
        return [ok("database", "none, as the configuration says")]
    try:
        path = sqlite_path(config.store.url, data_dir)
        if path is not None and not path.exists():
            return [warn("database", f"{path} does not exist yet", "the first start of the gateway creates it")]
        store = await open_store(config.store.url, data_dir, migrate=False)
    except OtherSchema as reason:
        return [fail("database", str(reason), "make a backup, and start the gateway; docs/upgrading.md has the steps")]
    except StoreError as reason:
        return [fail("database", str(reason), "check store.url, and that the database runs and accepts this user")]
    try:
        began = time.monotonic()
        at_ms = await store.read(lambda conn: now_of(conn, now_ms()), timeout_s=_TIMEOUT_S)
        took_ms = (time.monotonic() - began) * 1000
    except StoreUnavailable as reason:
        return [fail("database", f"no answer: {reason}", "check the database's log")]
    finally:
        await store.close()
    found = [ok("database", f"{store.where}: the schema is that of this version, a query took {took_ms:.0f} ms")]
    skew_ms = at_ms - now_ms()
    if abs(skew_ms) > _MAX_SKEW_MS:
        advice = "set both clocks: start chrony, or systemd-timesyncd"
        found.append(warn("database", f"its clock differs by {abs(skew_ms) / 1000:.0f} s", advice))
    return found


def check_journal(config: Config, data_dir: Path) -> Iterator[Finding]:
    if config.store.is_none:
        return
    folder = data_dir / "journal"
    place = next((each for each in (folder, data_dir) if each.is_dir()), None)
    if place is None:
        yield warn("journal", f"{data_dir} does not exist yet", "the first start of the gateway creates it")
        return
    try:
        took_s = _sync_s(place)
        free = shutil.disk_usage(place).free
    except OSError as reason:
        yield fail("journal", f"{place}: {reason.strerror}", "requests are refused without it: free or repair the disk")
        return
    message = f"{place}: a sync takes {took_s * 1000:.1f} ms"
    if took_s > _WARN_SYNC_S:
        yield warn("journal", message, "every request waits for one: use a local disk, not a network share")
    else:
        yield ok("journal", message)
    if free < _WARN_FREE_BYTES:
        level = fail if free < _MIN_FREE_BYTES else warn
        yield level("disk", f"{free >> 20} MiB are free in {place}", "free space, or lower store.retention_days")
    else:
        yield ok("disk", f"{free >> 30} GiB are free")


async def check_shared(config: Config) -> list[Finding]:
    if config.shared is None:
        return []
    try:
        from redis.asyncio import Redis
        from redis.exceptions import RedisError
    except ModuleNotFoundError:
        return [fail("valkey", "the driver is not installed", "install streamweir[shared]")]
    from streamweir.store.limits.valkey import pool_of, reason_of

    pool = pool_of(config.shared.url, _TIMEOUT_S)
    client = Redis(connection_pool=pool)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await client.ping()  # connects
            began = time.monotonic()
            seconds, micros = await client.time()
            took_ms = (time.monotonic() - began) * 1000
            about = await client.info("server")
    except (RedisError, OSError) as error:
        return [fail("valkey", reason_of(error), "check shared.url, its password, and that Valkey runs")]
    finally:
        await pool.disconnect()
    version = about.get("valkey_version") or about.get("redis_version", "unknown")
    found = [ok("valkey", f"version {version} answers in {took_ms:.1f} ms")]
    skew_ms = seconds * 1000 + micros // 1000 - now_ms()
    if abs(skew_ms) > _MAX_SKEW_MS:
        advice = "set both clocks: start chrony, or systemd-timesyncd"
        found.append(warn("valkey", f"its clock differs by {abs(skew_ms) / 1000:.0f} s", advice))
    return found


def _sync_s(folder: Path) -> float:
    """The median of some. Raises `OSError`."""
    path = folder / f".doctor-{os.getpid()}"
    times = []
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(_SYNCS):
            os.write(file, bytes(1024))
            began = time.monotonic()
            os.fsync(file)
            times.append(time.monotonic() - began)
    finally:
        os.close(file)
        path.unlink()
    return sorted(times)[_SYNCS // 2]
