"""Quantities for people: sizes of disks, memory of cards, ages. JSON carries plain bytes and seconds instead."""

from __future__ import annotations

from cloudrun.i18n import _

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(size_bytes: int | None) -> str:
    """Disk space in powers of 1000, as `min_free` and providers count it: `512 B`, `1.4 GB`, `50 GB`."""
    return _scaled(size_bytes, 1000, _DECIMAL)


def memory(size_bytes: int | None) -> str:
    """Memory in powers of 1024, as cards are sold and nvidia-smi counts it: `17.9 GiB`."""
    return _scaled(size_bytes, 1024, _BINARY)


def age(seconds: float | None) -> str:
    """How long: `4 s`, `12 min`, `3 h 05 min`, `2 d 4 h`."""
    if seconds is None:
        return _("n/a")
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 60:
        return _("{seconds} s").format(seconds=whole)
    if minutes < 60:
        return _("{minutes} min").format(minutes=minutes)
    if hours < 24:
        return _("{hours} h {minutes:02d} min").format(hours=hours, minutes=minutes % 60)
    return _("{days} d {hours} h").format(days=days, hours=hours % 24)


def _scaled(size_bytes: int | None, base: int, units: tuple[str, ...]) -> str:
    if size_bytes is None:
        return _("n/a")
    value, at = float(size_bytes), 0
    # 999.6 would round to a fourth digit: it belongs to the next unit.
    while abs(value) >= base - 0.5 and at < len(units) - 1:
        value, at = value / base, at + 1
    digits = 0 if at == 0 or value >= 100 or value == int(value) else 1
    return f"{value:.{digits}f} {units[at]}"
