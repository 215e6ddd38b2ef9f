"""What is refused and what is cut when memory or time run short."""

from pathlib import Path

import pytest

from streamweir.server.http.pressure import Level, Pressure, memory_limit_bytes, used_memory_bytes


@pytest.mark.parametrize(
    ("used", "level"),
    [(0, Level.CALM), (849, Level.CALM), (850, Level.SHED), (949, Level.SHED), (950, Level.CUT), (2000, Level.CUT)],
)
def test_memory_near_its_limit_sheds_and_then_cuts(used: int, level: Level) -> None:
    assert Pressure(1000, 1.0).sample(used, 0.0) is level


def test_what_bodies_hold_sheds_and_never_cuts() -> None:
    assert Pressure(1000, 1.0).sample(1100, 0.0, 300) is Level.SHED
    assert Pressure(1000, 1.0).sample(1100, 0.0, 100) is Level.CUT


def test_without_a_limit_memory_is_ignored() -> None:
    assert Pressure(None, 1.0).sample(1 << 60, 0.0) is Level.CALM


def test_a_loop_that_is_late_for_long_sheds_and_one_late_callback_does_not() -> None:
    pressure = Pressure(None, 1.0)
    assert pressure.sample(0, 2.0) is Level.CALM
    assert [pressure.sample(0, 2.0) for _ in range(3)][-1] is Level.SHED
    assert [pressure.sample(0, 0.0) for _ in range(10)][-1] is Level.CALM


def test_the_tightest_limit_counts(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       1024 kB\nMemFree:  1 kB\n")
    assert memory_limit_bytes(tmp_path) == 1024 * 1024
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert memory_limit_bytes(tmp_path) == 1024 * 1024
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("65536\n")
    assert memory_limit_bytes(tmp_path) == 65536


@pytest.mark.parametrize(
    ("cgroup", "folder", "file"),
    [
        ("0::/system.slice/streamweir.service\n", "sys/fs/cgroup", "memory.max"),
        (
            "5:cpu:/a\n4:memory:/system.slice/streamweir.service\n0::/\n",
            "sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
        ),
    ],
    ids=["v2", "v1"],
)
def test_the_limits_of_our_groups_count_our_own_and_those_above(
    tmp_path: Path, cgroup: str, folder: str, file: str
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    own = tmp_path / folder / "system.slice/streamweir.service"
    own.mkdir(parents=True)
    for group, limit in ((own, 3000), (own.parent, 2000), (tmp_path / folder, 4000)):
        (group / file).write_text(f"{limit}\n")
    assert memory_limit_bytes(tmp_path) == 2000
    (own / file).write_text("1000\n")
    assert memory_limit_bytes(tmp_path) == 1000


def test_in_a_container_the_path_may_be_that_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/docker/0123456789\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("65536\n")
    assert memory_limit_bytes(tmp_path) == 65536


def test_a_system_that_says_nothing_has_no_limit(tmp_path: Path) -> None:
    assert memory_limit_bytes(tmp_path) is None


def test_this_process_uses_memory() -> None:
    assert used_memory_bytes() > 1024 * 1024
