"""Which host is meant: the order, and what is said where nothing decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudrun.app.hosts import Wanted, add_host, use_host
from cloudrun.config.selection import select
from cloudrun.errors import CloudrunError


def add(*names: str) -> None:
    for name in names:
        add_host(name, Wanted(f"root@{name}.example:22"), None)


def test_each_way_of_choosing_stands_before_the_next(laptop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add("alone")
    assert select(None).name == "alone"
    add("chosen", "project", "env", "flag")
    use_host("chosen")
    assert select(None).name == "chosen"
    assert select(None, project_host=lambda: "project").name == "project"
    monkeypatch.setenv("CLOUDRUN_HOST", "env")
    assert select(None, project_host=lambda: "project").name == "env"
    assert select("flag", project_host=lambda: "project").name == "flag"


def test_nothing_decides_and_all_ways_are_told(laptop: Path) -> None:
    with pytest.raises(CloudrunError) as caught:
        select(None)
    assert caught.value.code == "no-hosts"
    add("one", "two")
    with pytest.raises(CloudrunError) as caught:
        select(None)
    assert "one, two" in caught.value.message
    for way in ("--host", "CLOUDRUN_HOST", "cloudrun.toml", "cloudrun host use"):
        assert way in caught.value.hint


def test_an_unknown_name_shows_where_it_came_from_and_the_near_ones(laptop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add("gpu-box", "other")
    monkeypatch.setenv("CLOUDRUN_HOST", "gpu-bax")
    with pytest.raises(CloudrunError) as caught:
        select(None)
    assert "gpu-box" in caught.value.message
    assert "CLOUDRUN_HOST" in caught.value.message
    assert "other" not in caught.value.message


def test_this_machine_needs_no_entry(laptop: Path) -> None:
    assert select("local").address.is_local
    add_host("local", Wanted("local", data_dir="/data"), None)
    assert select("local").data_dir == "/data"
