"""The GPUs, as nvidia-smi tells: pure parsers, and one look that costs its deadline at most."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Dict, List, Optional, Set, Tuple

from remote_agent import processes, programs, silence
from remote_agent.protocol import Gpu, GpuReport
from remote_agent.words import _

#: Where it lies when PATH does not say: drivers' own folders, the container toolkit's, WSL's.
USUAL_PLACES = (
    "/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/opt/bin", "/usr/lib/wsl/lib", "/bin",
)
COLUMNS = (
    "index", "name", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu", "power.draw", "uuid",
)
_FORMAT = "--format=csv,noheader,nounits"
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)\Z")
_BYTES = {"": 1 << 20, "mib": 1 << 20, "mb": 1 << 20, "gib": 1 << 30, "gb": 1 << 30, "kib": 1 << 10, "kb": 1 << 10, "b": 1}

#: What the program says when it is not well, in lower case, and the state it means. The first that fits counts.
_SAYINGS = (
    ("no devices were found", "no-device"),
    ("driver/library version mismatch", "driver-mismatch"),
    ("gpu is lost", "gpu-lost"),
    ("fallen off the bus", "gpu-lost"),
    ("unable to determine the device handle", "gpu-lost"),
    ("couldn't communicate with the nvidia driver", "driver-unreachable"),
    ("driver not loaded", "driver-unreachable"),
    ("couldn't find libnvidia-ml", "driver-unreachable"),
    ("access blocked by the operating system", "driver-unreachable"),
    ("failed to initialize nvml: unknown error", "device-unknown"),
)
#: What its exit code means where it says nothing (its manual's list).
_CODES = {6: "no-device", 9: "driver-unreachable", 12: "driver-unreachable", 15: "gpu-lost"}
#: One that the kernel has held for longer than any good one runs is held for good.
_STUCK_AFTER_S = 20.0
_SHOWN_CHARACTERS = 200


def report(deadline_s: float = 10) -> GpuReport:
    """The cards and what state they are in. Never raises; a hanging nvidia-smi costs the deadline and no more."""
    path, refused = _program()
    return refused if path is None else _cards(path, deadline_s)


def look(deadline_s: float = 10) -> Tuple[GpuReport, Dict[str, Set[int]]]:
    """The report, and the pids that the driver names as computing, by the card's uuid (whose pids they are is open)."""
    path, refused = _program()
    if path is None:
        return refused, {}
    ends = time.monotonic() + deadline_s
    said: List[str] = []
    # Both questions at once: a second one after the first could double the wait.
    asking = threading.Thread(target=lambda: said.append(_compute_apps(path, deadline_s)), daemon=True)
    asking.start()
    found = _cards(path, deadline_s)
    asking.join(max(0.0, ends - time.monotonic()) + 0.5)
    return found, parse_compute_apps(said[0] if said else "")


def _program() -> Tuple[Optional[str], GpuReport]:
    """Path of nvidia-smi; None, and the report, where it is not there or where another one would only hang beside the first."""
    path = find_program()
    if path is None:
        return None, GpuReport("not-installed")
    stuck = processes.uninterruptible("nvidia-smi", _STUCK_AFTER_S)
    if stuck is not None:
        detail = _("an earlier nvidia-smi (pid {pid}) hangs in the driver and cannot be killed").format(pid=stuck)
        return None, GpuReport("timeout", detail=detail)
    if programs.undying(path):
        detail = _("an earlier {path} hangs in the driver and cannot be killed").format(path=path)
        return None, GpuReport("timeout", detail=detail)
    return path, GpuReport("error")


def find_program() -> Optional[str]:
    """Path of nvidia-smi; None where there is none."""
    for places in (os.environ.get("PATH", ""), os.pathsep.join(USUAL_PLACES)):
        found = silence.which("nvidia-smi", path=places)
        if found is not None:
            return found
    return None


def parse_cards(text: str, columns: Tuple[str, ...] = COLUMNS) -> List[Gpu]:
    """Cards from CSV, with or without header, units and blanks. A cell that is no number becomes None; other cells survive."""
    cards = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] == "index":
            columns = tuple(cell.partition("[")[0].strip() for cell in cells)
            continue
        card = _card(cells, columns)
        if card is not None:
            cards.append(card)
    return cards


def parse_compute_apps(text: str) -> Dict[str, Set[int]]:
    """Pids by card from `gpu_uuid, pid` lines. Pids that the driver hides are left out."""
    found: Dict[str, Set[int]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) >= 2 and cells[1].isdigit():
            found.setdefault(cells[0], set()).add(int(cells[1]))
    return found


def classify(returncode: int, text: str) -> Tuple[str, Optional[str]]:
    """State (one of GPU_STATES) and the line that says why, from the exit code and all that was said. Codes differ by version."""
    lines = [line for line in map(_printable, text.splitlines()) if line]
    for line in lines:
        for saying, state in _SAYINGS:
            if saying in line.lower():
                return state, line
    first = lines[0] if lines else None
    if returncode == 127 or (first is not None and "command not found" in first):
        return "not-installed", first
    if returncode == 0:
        return "ok", None
    state = "error" if first else _CODES.get(returncode, "error")
    return state, first or _("nvidia-smi ended with code {code} and said nothing").format(code=returncode)


def judge(returncode: int, text: str) -> GpuReport:
    """The report from what the program said. Cards that it could still tell of are kept beside an error."""
    state, detail = classify(returncode, text)
    cards = parse_cards(text)
    if state == "ok" and not cards:
        said = next((line for line in map(_printable, text.splitlines()) if line), _("nothing"))
        state, detail = "error", _("nvidia-smi ended with code 0 and listed no card; it said: {said}").format(said=said)
    return GpuReport(state, cards, detail)


def _cards(path: str, deadline_s: float) -> GpuReport:
    try:
        done = programs.run([path, "--query-gpu=" + ",".join(COLUMNS), _FORMAT], deadline_s)
    except OSError as error:
        return GpuReport("error", detail="%s: %s" % (path, error.strerror or error))
    if done.returncode is None:
        detail = _("{path} did not answer within {seconds:g} s").format(path=path, seconds=deadline_s)
        return GpuReport("timeout", parse_cards(done.text), detail)
    return judge(done.returncode, done.text)


def _compute_apps(path: str, deadline_s: float) -> str:
    try:
        done = programs.run([path, "--query-compute-apps=gpu_uuid,pid", _FORMAT], deadline_s)
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _card(cells: List[str], columns: Tuple[str, ...]) -> Optional[Gpu]:
    """One row; None for a line that is no card (a warning, an error's text)."""
    if len(cells) < 3:
        return None
    surplus = len(cells) - len(columns)
    if surplus > 0 and "name" in columns:  # the name is the only cell that may hold a comma
        at = columns.index("name")
        cells = [*cells[:at], ", ".join(cells[at:at + surplus + 1]), *cells[at + surplus + 1:]]
    by_name = dict(zip(columns, cells))
    index = _number(by_name.get("index", ""), {"": 1})
    if index is None and not by_name.get("index", "").startswith("["):
        return None
    return Gpu(
        index=None if index is None else int(index),
        name=_text(by_name.get("name", "")),
        utilization_percent=_number(by_name.get("utilization.gpu", ""), {"": 1, "%": 1}),
        memory_used_bytes=_bytes(by_name.get("memory.used", "")),
        memory_total_bytes=_bytes(by_name.get("memory.total", "")),
        temperature_c=_number(by_name.get("temperature.gpu", ""), {"": 1, "c": 1}),
        power_w=_number(by_name.get("power.draw", ""), {"": 1, "w": 1}),
        uuid=_text(by_name.get("uuid", "")),
    )


def _printable(line: str) -> str:
    """A line that can be shown: whatever a broken driver prints, it steers no terminal."""
    shown = "".join(character if character.isprintable() else " " for character in line).strip()
    return shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "…"


def _number(cell: str, units: Dict[str, int]) -> Optional[float]:
    """The number times its unit; None for `[N/A]`, `ERR!`, a unit that is not expected: unknown is never 0."""
    match = _NUMBER.match(cell)
    if not match or match.group(2).lower() not in units:
        return None
    return float(match.group(1)) * units[match.group(2).lower()]


def _bytes(cell: str) -> Optional[int]:
    value = _number(cell, _BYTES)
    return None if value is None or value < 0 else int(value)


def _text(cell: str) -> Optional[str]:
    return None if not cell or cell.startswith("[") or cell == "N/A" else cell
