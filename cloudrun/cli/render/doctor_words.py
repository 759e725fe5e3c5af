"""The words for what the doctor finds: templates by code. Codes that are not here are those of the error catalogue."""

from __future__ import annotations

from typing import Any

from cloudrun.cli.render.units import size
from cloudrun.errors import CATALOGUE, CloudrunError
from cloudrun.i18n import N_, _
from remote_agent import protocol

NAMES = {
    "reachable": N_("reachable"), "agent": N_("agent"), "python": N_("Python"), "data-disk": N_("data disk"),
    "disk-space": N_("disk space"), "inodes": N_("inodes"), "sessions": N_("sessions"), "gpu": N_("GPU"),
}

FOUND = {
    "reachable": N_("{address} answers"),
    "no-answer": N_("no answer within {deadline_s:g} s"),
    "check-broke": N_("the check itself failed: {detail}"),
    "python": N_("Python {version}, {path}"),
    "python-plain-tmux": N_("Python {version}, {path} (tmux is driven by plain commands; libtmux needs 3.10)"),
    "python-missing": N_("the configured Python {configured} is not there; {path} ({version}) runs in its place"),
    "python-not-used": N_("the configured Python {configured} does not run, or is too old; {path} ({version}) runs in its place"),
    "data-disk": N_("{path}, on the disk mounted at {mount}"),
    "data-disk-is-home": N_("no data disk found: runs would lie in {path}, on the system disk"),
    "data-disk-not-mounted": N_("{path} is an ordinary folder: the data disk is not mounted there"),
    "data-disk-not-there": N_("{path} does not exist yet; it would lie on the system disk mounted at {mount}"),
    "data-disk-in-memory": N_("{path} lies in memory: what is there is gone when the box is switched off"),
    "disk-space": N_("{free_bytes} free of {total_bytes}"),
    "inodes": N_("{free:,} free of {total:,}"),
    "inodes-uncounted": N_("not counted on this file system"),
    "sessions": N_("{programs}"),
    "no-session-program": N_("neither screen nor tmux: a run gets a detached process, and attach can only watch"),
    "gpu-ok": N_("{names}"),
    "gpu-not-installed": N_("no nvidia-smi: a box without a GPU, or without its driver"),
    "gpu-no-device": N_("the driver is there and finds no card: the box was started without a GPU"),
    "gpu-driver-mismatch": N_("the driver and its library are of different versions: {detail}"),
    "gpu-driver-unreachable": N_("nvidia-smi cannot reach the driver: {detail}"),
    "gpu-device-unknown": N_("the container has lost its access to the cards: {detail}"),
    "gpu-gpu-lost": N_("a card is lost: {detail}"),
    "gpu-timeout": N_("nvidia-smi hangs: {detail}"),
    "gpu-error": N_("nvidia-smi failed: {detail}"),
}

HINTS = {
    "python-configured": N_("cloudrun host set {host} --python {path}   (or --python \"\" to have it looked for)"),
    "data-disk-not-there": N_(
        "what lies there is lost when the provider renews the system disk; meant another folder? "
        "cloudrun host set {host} --data-dir /path/on/a/disk (\"\" to have one looked for)"),
    "data-disk-is-home": N_(
        "what lies there is lost when the provider renews the system disk; if there is another disk: "
        "cloudrun host set {host} --data-dir /path/on/it"),
    "data-disk-not-mounted": N_(
        "mount it on the provider's page, or choose another: cloudrun host set {host} --data-dir /path/on/a/disk"),
    "data-disk-in-memory": N_("choose a disk: cloudrun host set {host} --data-dir /path/on/a/disk"),
    "disk-space-low": N_(
        "a launch needs {needed_bytes} (min_free); see what takes the space: ssh to the box, du -xsh {path}/*; "
        "remove ended runs: cloudrun rm RUN"),
    "inodes-low": N_("many small files use them up: pack data sets into archives; remove ended runs: cloudrun rm RUN"),
    "no-session-program": N_("launch installs screen by itself; by hand: apt-get install -y screen"),
    "gpu-not-installed": N_("start the box with a GPU on the provider's page, then: cloudrun gpu"),
    "gpu-no-device": N_("start the box with a GPU on the provider's page, then: cloudrun gpu"),
    "gpu-driver-mismatch": N_("restart the box on the provider's page; if it stays, ask the provider. Then: cloudrun gpu"),
    "gpu-driver-unreachable": N_("restart the box on the provider's page; if it stays, ask the provider. Then: cloudrun gpu"),
    "gpu-device-unknown": N_("restart the container (a running training keeps its cards until then). Then: cloudrun gpu"),
    "gpu-gpu-lost": N_("the hardware needs a restart of the machine: tell the provider. Then: cloudrun gpu"),
    "gpu-timeout": N_("the driver is stuck: restart the box on the provider's page. Then: cloudrun gpu"),
    "gpu-error": N_("run nvidia-smi on the box and read what it says. Then: cloudrun gpu"),
}

#: Where the box is this machine: no provider's page, and no disk that a provider renews.
LOCAL_HINTS = {
    "data-disk-is-home": N_("to have them elsewhere: cloudrun host set {host} --data-dir /path/on/another/disk"),
    "data-disk-not-there": N_("the first launch makes it; meant another folder? cloudrun host set {host} --data-dir /path"),
    "data-disk-not-mounted": N_("mount it, or choose another: cloudrun host set {host} --data-dir /path/on/a/disk"),
    "disk-space-low": N_(
        "a launch needs {needed_bytes} (min_free); see what takes the space: du -xsh {path}/*; "
        "remove ended runs: cloudrun rm RUN"),
    "gpu-not-installed": N_("without a card trainings run on the CPU; with one, install NVIDIA's driver, then: cloudrun gpu"),
    "gpu-no-device": N_("without a card trainings run on the CPU; is one plugged in: lspci | grep -i nvidia"),
    "gpu-driver-mismatch": N_("restart this machine. Then: cloudrun gpu"),
    "gpu-driver-unreachable": N_("restart this machine; if it stays, install the driver anew. Then: cloudrun gpu"),
    "gpu-gpu-lost": N_("switch this machine off and on. Then: cloudrun gpu"),
    "gpu-timeout": N_("the driver is stuck: restart this machine. Then: cloudrun gpu"),
    "gpu-error": N_("run nvidia-smi and read what it says. Then: cloudrun gpu"),
}


def name_words(check: protocol.Check) -> str:
    return _(NAMES[check.name]) if check.name in NAMES else check.name


def found_words(check: protocol.Check, host: str) -> str:
    """What was found, in words; a code of a newer agent shows as it came."""
    if check.found in FOUND:
        return _fill(FOUND[check.found], check.params, host)
    if check.found in CATALOGUE:
        return CloudrunError(check.found, **check.params).message
    return f"{check.found} {check.params}" if check.params else check.found


def hint_words(check: protocol.Check, host: str, *, local: bool = False) -> str | None:
    """What to type, or None where all is well or this version does not know. `local`: the box is this machine."""
    if check.hint is None:
        return None
    template = (LOCAL_HINTS if local else HINTS).get(check.hint, HINTS.get(check.hint))
    if template is not None:
        return _fill(template, check.params, host)
    return CloudrunError(check.hint, **check.params).hint if check.hint in CATALOGUE else None


def gpu_check(report: protocol.GpuReport) -> protocol.Check:
    """A report that is not well as the doctor's line, so that both say it in the same words."""
    code = "gpu-" + report.state
    return protocol.Check("gpu", "failure", code, {"detail": report.detail or ""}, hint=code)


def _fill(template: str, params: dict[str, Any], host: str) -> str:
    shown: dict[str, Any] = {"host": host}
    for key, value in params.items():
        shown[key] = size(value) if key.endswith("_bytes") and isinstance(value, int) else value
    try:
        return _(template).format_map(shown)
    except (KeyError, ValueError, TypeError):  # an older or newer agent says less or other than this template wants
        return f"{_(template)} {params}"
