"""Quantities as the command shows them."""

from __future__ import annotations

from cloudrun.units import age, memory, size

__all__ = ["age", "memory", "size"]
