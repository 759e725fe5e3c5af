"""Where this laptop keeps its settings."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def config_dir() -> Path:
    """The platform's configuration folder for cloudrun; `CLOUDRUN_CONFIG_DIR` overrides it."""
    chosen = os.environ.get("CLOUDRUN_CONFIG_DIR")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_config_dir("cloudrun", appauthor=False))


def hosts_file() -> Path:
    return config_dir() / "hosts.toml"


def known_hosts_file() -> Path:
    return config_dir() / "known_hosts"


def own_key_file() -> Path:
    """cloudrun's own private key, for boxes that hand out a password."""
    return config_dir() / "id_ed25519"
