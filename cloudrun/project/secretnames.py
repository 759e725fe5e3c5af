"""Names of files that hold secrets in most projects: what goes to a rented box under such a name is worth a word."""

from __future__ import annotations

from fnmatch import fnmatchcase

_NAMES = (
    ".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.kdbx", "id_rsa", "id_dsa", "id_ecdsa",
    "id_ed25519", ".netrc", "_netrc", ".git-credentials", ".pypirc", ".npmrc", ".htpasswd", ".pgpass", "credentials",
    "credentials.json",
    "client_secret*.json", "service-account*.json", "service_account*.json", "kaggle.json", "secrets.json", "secrets.toml",
    "secrets.yaml", "secrets.yml",
)
#: Written to be shared: they show which variables there are.
_SAMPLES = ("example", "sample", "template", "dist", "defaults")


def looks_secret(path: str) -> bool:
    """Whether the last part of a "/"-separated path is such a name."""
    name = path.rpartition("/")[2].lower()
    if any(part in _SAMPLES for part in name.split(".")):
        return False
    return any(fnmatchcase(name, pattern) for pattern in _NAMES)
