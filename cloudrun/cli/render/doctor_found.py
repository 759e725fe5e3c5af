"""What the doctor found, in words: names of the lines and templates by code."""

from __future__ import annotations

from cloudrun.i18n import N_

NAMES = {
    "project": N_("cloudrun.toml"), "ssh": N_("ssh settings"), "reachable": N_("reachable"), "host-key": N_("host key"),
    "login": N_("login"), "clock": N_("clock"), "agent": N_("agent"), "python": N_("Python (agent)"),
    "training-python": N_("Python (run)"), "torch": N_("torch"), "gpu": N_("GPU"),
    "data-disk": N_("data disk"), "disk-space": N_("disk space"), "inodes": N_("inodes"), "data-write": N_("data write"),
    "system-disk": N_("system disk"), "network-disk": N_("network disk"), "memory": N_("memory"),
    "shared-memory": N_("shared memory"), "sessions": N_("sessions"), "sockets": N_("session folder"), "pty": N_("terminals"),
    "locale": N_("locale"), "packages": N_("packages"), "login-keys": N_("login keys"),
}

_WAY = {
    "ssh": N_("{address}"),
    "ssh-jumps": N_("{address}, through {way}"),
    "ssh-proxy": N_("{address}, through the program {proxy}"),
    "reachable": N_("answers in {round_trip_ms:g} ms (median of {count} round trips)"),
    "reachable-unmeasured": N_("it answers"),
    "host-key": N_("{fingerprint} ({type}), known from {known_in}"),
    "login": N_("opened by {by}"),
    "login-typed": N_("opened by {by}, which has to be typed for every command"),
    "clock": N_("{seconds:g} s from this laptop's"),
    "clock-ahead": N_("the box's clock is {seconds:g} s ahead of this laptop's"),
    "clock-behind": N_("the box's clock is {seconds:g} s behind this laptop's"),
}

_PYTHONS = {
    "python": N_("Python {version}, {path}"),
    "python-plain-tmux": N_("Python {version}, {path} (tmux is driven by plain commands; libtmux needs 3.10)"),
    "python-missing": N_("the configured Python {configured} is not there; {path} ({version}) runs in its place"),
    "python-not-used": N_("the configured Python {configured} does not run, or is too old; {path} ({version}) runs in its place"),
    "training-python": N_("a run gets Python {version}, {path}"),
    "training-python-old": N_("a run gets Python {version}, {path}, too old for `import remote_agent` (3.8)"),
    "training-python-none": N_("a run finds neither `python` nor `python3`"),
    "training-python-no-bash": N_("there is no bash, and run.sh is written for it"),
    "training-python-broken": N_("the Python of a run does not start: {detail}"),
    "torch": N_("torch {torch} with CUDA {cuda}; it sees {devices} cards"),
    "torch-hip": N_("torch {torch} with ROCm {hip}; it sees {devices} cards"),
    "torch-idle": N_("torch {torch} with CUDA {cuda}; there is no card for it now"),
    "torch-cpu": N_("torch {torch}, built without CUDA: for the CPU only"),
    "torch-missing": N_("no torch in {path}"),
    "torch-broken": N_("torch cannot be imported: {detail}"),
    "torch-slow": N_("importing torch takes more than {deadline_s:g} s"),
    "torch-cpu-beside-gpu": N_("torch {torch} is built for the CPU only; the cards of this box would stand idle"),
    "torch-blind": N_("torch {torch} with CUDA {cuda} sees none of the cards. {why}"),
    "torch-driver-older": N_("torch {torch} wants CUDA {cuda}; this box's driver is too old for it"),
    "torch-driver-old": N_("torch {torch} wants CUDA {cuda}; this box's driver is too old for it (it runs up to {driver})"),
}

_GPU = {
    "gpu-ok": N_("{names}"),
    "gpu-not-installed": N_("no nvidia-smi: no GPU here, or no driver"),
    "gpu-no-device": N_("the driver is there and finds no card: the box was started without a GPU"),
    "gpu-no-card-mode": N_("no card, and only {limit_bytes} of memory: the provider's mode without a card, for copying data"),
    "gpu-driver-mismatch": N_("the driver and its library are of different versions: {detail}"),
    "gpu-driver-unreachable": N_("nvidia-smi cannot reach the driver: {detail}"),
    "gpu-device-unknown": N_("the container has lost its access to the cards: {detail}"),
    "gpu-gpu-lost": N_("a card is lost: {detail}"),
    "gpu-timeout": N_("nvidia-smi hangs: {detail}"),
    "gpu-error": N_("nvidia-smi failed: {detail}"),
}

_DISKS = {
    "data-disk": N_("{path}, on the disk mounted at {mount}"),
    "data-disk-root": N_("{path}, on the system disk"),
    "data-disk-is-home": N_("no data disk found: runs would lie in {path}, on the system disk"),
    "data-disk-not-mounted": N_("{path} is an ordinary folder: the data disk is not mounted there"),
    "data-disk-not-there": N_("{path} does not exist yet; it would lie on the system disk mounted at {mount}"),
    "data-disk-in-memory": N_("{path} lies in memory: what is there is gone when the box is switched off"),
    "data-disk-on-layer": N_(
        "{path} lies on the container's own layer: runs, logs and checkpoints are lost when the box is released or its image is "
        "reset"),
    "data-disk-network": N_("{path} lies on a network disk ({type}): slow for checkpoints, and runs stall with the network"),
    "data-disk-autodl-fs": N_(
        "{path} lies on AutoDL's network disk: few inodes, slow, shared with the other boxes of the region; not for runs"),
    "disk-space": N_("{free_bytes} free of {total_bytes}"),
    "inodes": N_("{free:,} free of {total:,}"),
    "inodes-uncounted": N_("not counted on this file system"),
    "write": N_("a file was written and flushed within {took_ms} ms"),
    "write-full": N_("no file can be written in {path}: the disk is full"),
    "write-no-inodes": N_("no file can be made in {path}: no inodes are left"),
    "write-quota": N_("no file can be written in {path}: your quota is used up"),
    "write-read-only": N_("no file can be written in {path}: the disk is read-only"),
    "write-refused": N_("no file can be written in {path}: {detail}"),
    "write-error": N_("a write in {path} failed: {detail}"),
    "system-disk": N_("{free_bytes} of {total_bytes}, {free:,} inodes free; it takes writes"),
    "system-disk-uncounted": N_("{free_bytes} free of {total_bytes}; it takes writes"),
    "network-disk": N_("{path}, {free_bytes} free: for archives of data, not for runs"),
    "network-disk-counted": N_("{path}, {free_bytes} and {free:,} inodes free: for archives of data, not for runs"),
    "login-keys": N_("{path}, on the disk mounted at {mount}"),
    "login-keys-none": N_("no {path}: the login goes another way"),
    "login-keys-layer": N_("{path}, on the system layer: outlives off and on, not a release or a new image of the box"),
    "login-keys-memory": N_("{path} lies in memory: the keys are gone when the box is switched off"),
}

_SYSTEM = {
    "memory-limit": N_("{used_bytes} used of {limit_bytes} allowed (cgroup v{cgroup})"),
    "memory-limit-only": N_("{limit_bytes} allowed (cgroup v{cgroup})"),
    "memory-full": N_("{used_bytes} used of {limit_bytes} (cgroup v{cgroup}): the kernel kills what asks for more"),
    "memory-no-limit": N_("no limit; {available_bytes} of {total_bytes} available"),
    "memory-unknown": N_("neither a limit nor the machine's memory can be read"),
    "shared-memory": N_("{free_bytes} free of {size_bytes}"),
    "shared-memory-little": N_("only {size_bytes} in /dev/shm: DataLoader workers pass batches there and die of a bus error"),
    "shared-memory-full": N_("only {free_bytes} free of {size_bytes} in /dev/shm: DataLoader workers die of a bus error"),
    "shared-memory-refused": N_("/dev/shm takes no files: DataLoader workers cannot hand their batches over"),
    "shared-memory-missing": N_("there is no /dev/shm: DataLoader workers cannot hand their batches over"),
    "shared-memory-disk": N_("/dev/shm is an ordinary folder on a disk: DataLoader workers are slow"),
    "sessions": N_("{programs}"),
    "sessions-broken": N_("{programs}; {broken} is there and does not run"),
    "sessions-all-broken": N_("{broken} is there and does not run: a run gets a detached process, attach can only watch"),
    "no-session-program": N_("neither screen nor tmux: a run gets a detached process, and attach can only watch"),
    "sockets": N_("{path} holds sockets"),
    "sockets-elsewhere": N_("{path}, private (0700): the home's is too long, or holds none"),
    "sockets-refused": N_("no folder holds a session's socket: {reason}"),
    "pty": N_("one was opened: {path}"),
    "pty-refused": N_("none can be opened, so neither screen nor tmux can hold a run: {detail}"),
    "locale": N_("{locale}"),
    "locale-set": N_("a run gets {locale} (the login itself has no UTF-8)"),
    "locale-none": N_("no UTF-8 locale on the box: letters other than English come out wrong"),
    "locale-wrong": N_("{locale} is listed and does not work: letters other than English come out wrong"),
    "packages-root": N_("can be installed: {manager}, as root"),
    "packages-sudo": N_("can be installed: {manager}, by sudo"),
    "packages-no-manager": N_("cannot be installed: none of {manager} is here"),
    "packages-needs-root": N_("cannot be installed: {manager} needs root, or sudo without a password"),
    "packages-locked": N_("cannot be installed now: {manager} is in use by {holder}"),
    "packages-interrupted": N_("cannot be installed: dpkg was cut off in the middle of something"),
    "packages-no-manager-unneeded": N_("cannot be installed (none of {manager} is here); nothing is needed"),
    "packages-needs-root-unneeded": N_("cannot be installed ({manager} needs root); nothing is needed"),
    "packages-locked-unneeded": N_("not now ({manager} is in use by {holder}); nothing is needed"),
}

_ANY = {
    "no-answer": N_("did not answer within {deadline_s:g} s"),
    "check-broke": N_("the check itself failed: {detail}"),
}

FOUND = {**_WAY, **_PYTHONS, **_GPU, **_DISKS, **_SYSTEM, **_ANY}
