"""What to type where the doctor found something that is not well, by code."""

from __future__ import annotations

from cloudrun.i18n import N_

_TOML = N_(
    "name the environment in cloudrun.toml (conda_env = \"NAME\", or activate = \"/path/to/venv\"); "
    "or put torch there: {path} -m pip install torch")
_RESTART = N_("restart the box on the provider's page; if it stays, ask the provider. Then: cloudrun gpu")
_WITH_GPU = N_("start the box with a GPU on the provider's page, then: cloudrun gpu")
_DISK = N_("cloudrun host set {host} --data-dir /path/on/a/disk")
_GUARD = N_("put this first in ~/.bashrc on the box (zsh: ~/.zshenv): case $- in *i*) ;; *) return;; esac")
_HOME = N_("launches need it; see on the box: df -h ~; df -i ~; ls -ld ~")

HINTS = {
    "no-answer": N_("once more: cloudrun doctor; if it stays, log in and see what hangs: ps axo stat,pid,args | grep ^D"),
    "check-broke": N_("the box may be fine all the same; please report this line"),
    "reachable-slow": N_("every command waits for it; a nearer region, or no VPN in between, helps. See: ping HOST"),
    "login-typed": N_("let a key of cloudrun's own open it from now on: cloudrun host set {host} \"{target}\""),
    "clock-skew": N_("compare: date -u (on the laptop too); whichever is wrong, let it be set by the network"),
    "agent-no-folder": N_("log in and look: df -h ~ /tmp; ls -ld ~ /tmp"),
    "agent-start-failed": N_("name a Python that runs there: cloudrun host set {host} --python /root/miniconda3/bin/python"),
    "agent-start-timeout": N_(
        "does this end at once on the box? python3 -I -c pass; if not: cloudrun host set {host} --python /path"),
    "shell-ended": _GUARD,
    "shell-waits": _GUARD,
    "shell-talks": _GUARD,
    "agent-damaged": N_("try again; if it stays, the disk of the home is to blame. On the box: df -h ~; dmesg | tail"),
    "put-failed": N_("log in and look: df -h ~; ls -ld ~ ~/.cloudrun"),
    "python-configured": N_("cloudrun host set {host} --python {path}   (or --python \"\" to have it looked for)"),
    "training-python-none": N_("name an environment in cloudrun.toml: conda_env = \"NAME\" or activate = \"/path/to/venv\""),
    "training-python-no-bash": N_("apt-get install -y bash (apk add bash)"),
    "training-python-broken": N_(
        "mend conda_env or activate in cloudrun.toml; what there is, on the box: conda env list; ls -d ~/*/bin/activate"),
    "training-python-slow": N_("log in and see what hangs: time python -c pass; df -h   (a network disk on PATH is usual)"),
    "torch-missing": _TOML,
    "torch-broken": N_("on the box, for the whole message: {path} -c 'import torch'"),
    "torch-slow": N_("try on the box: time {path} -c 'import torch'; an environment on a network disk is slow each time"),
    "torch-cpu-beside-gpu": N_(
        "{path} -m pip install --force-reinstall torch   (Linux gets CUDA by default); "
        "or another environment in cloudrun.toml: conda_env"),
    "torch-blind": N_("on the box: {path} -c 'import torch; torch.zeros(1).cuda()'; is CUDA_VISIBLE_DEVICES set?"),
    "torch-driver-old": N_(
        "a torch built for an older CUDA (https://pytorch.org/get-started/previous-versions), or a box with a newer driver"),
    "data-disk-not-there": N_(
        "what lies there is lost when the provider renews the system disk; meant another folder? "
        "cloudrun host set {host} --data-dir /path/on/a/disk (\"\" to have one looked for)"),
    "data-disk-is-home": N_(
        "what lies there is lost when the provider renews the system disk; if there is another disk: "
        "cloudrun host set {host} --data-dir /path/on/it"),
    "data-disk-not-mounted": N_(
        "mount it on the provider's page, or choose another: cloudrun host set {host} --data-dir /path/on/a/disk"),
    "data-disk-in-memory": N_("choose a disk: cloudrun host set {host} --data-dir /path/on/a/disk"),
    "data-disk-on-layer": N_(
        "if the provider gives a data disk: cloudrun host set {host} --data-dir /path/on/it; else copy results home in time"),
    "data-disk-network": N_("if there is a local disk: cloudrun host set {host} --data-dir /path/on/it"),
    "data-disk-autodl-fs": N_("cloudrun host set {host} --data-dir /root/autodl-tmp   (archives of data may stay there)"),
    "disk-space-low": N_(
        "a launch needs {needed_bytes} (min_free); see what takes the space: ssh to the box, du -xsh {path}/*; "
        "remove ended runs: cloudrun rm RUN"),
    "inodes-low": N_("many small files use them up: pack data sets into archives; remove ended runs: cloudrun rm RUN"),
    "write-full": N_("make room: on the box, du -xsh {path}/*; ended runs: cloudrun rm RUN"),
    "write-no-inodes": N_("pack or delete folders of many small files; ended runs: cloudrun rm RUN"),
    "write-quota": N_("make room: on the box, du -xsh {path}/*; ended runs: cloudrun rm RUN"),
    "write-read-only": N_("restart the box on the provider's page; if it stays: cloudrun host set {host} --data-dir /path"),
    "write-refused": _DISK,
    "write-error": N_("the disk is failing: save what you can, then another box. On the box: dmesg | tail"),
    "system-disk-low": N_("make room on the box: pip cache purge; conda clean -a; du -xh ~ | sort -h | tail"),
    "system-inodes-low": N_("many small files in the home use them up; on the box: du -x --inodes ~ | sort -n | tail"),
    "system-write-full": N_("make room on the box: pip cache purge; conda clean -a; du -xh ~ | sort -h | tail"),
    "system-write-no-inodes": N_("many small files in the home use them up; on the box: du -x --inodes ~ | sort -n | tail"),
    "system-write-quota": N_("make room on the box: pip cache purge; conda clean -a; du -xh ~ | sort -h | tail"),
    "system-write-read-only": _HOME,
    "system-write-refused": _HOME,
    "system-write-error": N_("the disk is failing: save what you can, then another box. On the box: dmesg | tail"),
    "login-keys-memory": N_("put the key on the provider's page, which brings it back at every start"),
    "memory-full": N_("see what takes it, on the box: ps axo rss,pid,args --sort -rss | head"),
    "memory-little": N_("start the box with a GPU on the provider's page: more memory comes with the card"),
    "memory-unknown": N_("on the box: cat /proc/meminfo /proc/self/cgroup"),
    "shared-memory": N_(
        "DataLoader(num_workers=0), or torch.multiprocessing.set_sharing_strategy(\"file_system\"); own docker: --shm-size=8g"),
    "shared-memory-full": N_("what is left of dead trainings, on the box: ls -lh /dev/shm; rm what nothing uses"),
    "no-session-program": N_("launch installs screen by itself; by hand: apt-get install -y screen"),
    "sessions-broken": N_("on the box: {broken} --version; install it anew: apt-get install -y --reinstall {broken}"),
    "sockets-refused": N_("on the box: ls -ld ~/.cloudrun /tmp; df -h ~ /tmp   (one of them must take files)"),
    "pty-refused": N_("on the box, as root: mount -t devpts -o ptmxmode=666,gid=5 devpts /dev/pts; till then --backend detached"),
    "locale-none": N_("on the box, as root: apt-get install -y locales; locale-gen en_US.UTF-8"),
    "packages-no-manager": N_("a run works all the same (--backend detached); or an image with screen or tmux"),
    "packages-needs-root": N_("a run works all the same (--backend detached); or ask for screen or tmux to be installed"),
    "packages-locked": N_("wait a minute (just after a start updates run by themselves), then: cloudrun doctor"),
    "packages-interrupted": N_("on the box, as root: dpkg --configure -a"),
    "gpu-not-installed": _WITH_GPU,
    "gpu-no-device": _WITH_GPU,
    "gpu-no-card-mode": N_("to train, switch the box off and start it with its GPU on the provider's page, then: cloudrun gpu"),
    "gpu-driver-mismatch": _RESTART,
    "gpu-driver-unreachable": _RESTART,
    "gpu-device-unknown": N_("restart the container (a running training keeps its cards until then). Then: cloudrun gpu"),
    "gpu-gpu-lost": N_("the hardware needs a restart of the machine: tell the provider. Then: cloudrun gpu"),
    "gpu-timeout": N_("the driver is stuck: restart the box on the provider's page. Then: cloudrun gpu"),
    "gpu-error": N_("run nvidia-smi on the box and read what it says. Then: cloudrun gpu"),
}

_HERE_DISK = N_("make room: du -xsh {path}/*; ended runs: cloudrun rm RUN")
_HERE_HOME = N_("make room: pip cache purge; conda clean -a; du -xh ~ | sort -h | tail")
_HERE_INODES = N_("many small files in the home use them up: du -x --inodes ~ | sort -n | tail")
_HERE_FOLDERS = N_("see: df -h ~ /tmp; ls -ld ~ ~/.cloudrun /tmp")
_HERE_SHELL = N_("does this print one line and nothing else? sh -c 'echo hello'; then see --python")
_HERE_LOOK = N_("launches need it; see: df -h ~; df -i ~; ls -ld ~")

#: Where the box is this machine: no provider's page, and no disk that a provider renews.
LOCAL_HINTS = {
    "no-answer": N_("once more: cloudrun doctor; if it stays, see what hangs: ps axo stat,pid,args | grep ^D"),
    "check-broke": N_("all may be fine; please report this line"),
    "agent-no-folder": _HERE_FOLDERS,
    "agent-start-failed": _HERE_SHELL,
    "shell-ended": _HERE_SHELL,
    "shell-waits": _HERE_SHELL,
    "shell-talks": _HERE_SHELL,
    "agent-start-timeout": N_("does this end at once? python3 -I -c pass; if not: cloudrun host set {host} --python /path"),
    "agent-damaged": N_("try again; if it stays, the disk of the home is to blame: df -h ~; dmesg | tail"),
    "put-failed": _HERE_FOLDERS,
    "training-python-broken": N_("mend conda_env or activate in cloudrun.toml; what there is: conda env list"),
    "training-python-slow": N_("see what hangs: time python -c pass; df -h   (a network disk on PATH is usual)"),
    "torch-broken": N_("for the whole message: {path} -c 'import torch'"),
    "torch-slow": N_("try: time {path} -c 'import torch'; an environment on a network disk is slow each time"),
    "torch-blind": N_("try: {path} -c 'import torch; torch.zeros(1).cuda()'; is CUDA_VISIBLE_DEVICES set?"),
    "torch-driver-old": N_(
        "a torch built for an older CUDA (https://pytorch.org/get-started/previous-versions), or a newer driver"),
    "data-disk-is-home": N_("to have them elsewhere: cloudrun host set {host} --data-dir /path/on/another/disk"),
    "data-disk-not-there": N_("the first launch makes it; meant another folder? cloudrun host set {host} --data-dir /path"),
    "data-disk-not-mounted": N_("mount it, or choose another: cloudrun host set {host} --data-dir /path/on/a/disk"),
    "data-disk-on-layer": N_("to have them on a disk: cloudrun host set {host} --data-dir /path/on/a/disk"),
    "disk-space-low": N_(
        "a launch needs {needed_bytes} (min_free); see what takes the space: du -xsh {path}/*; "
        "remove ended runs: cloudrun rm RUN"),
    "write-full": _HERE_DISK,
    "write-quota": _HERE_DISK,
    "write-read-only": _DISK,
    "write-error": N_("the disk is failing: save what you can. See: dmesg | tail"),
    "system-disk-low": _HERE_HOME,
    "system-inodes-low": _HERE_INODES,
    "system-write-full": _HERE_HOME,
    "system-write-no-inodes": _HERE_INODES,
    "system-write-quota": _HERE_HOME,
    "system-write-read-only": _HERE_LOOK,
    "system-write-refused": _HERE_LOOK,
    "system-write-error": N_("the disk is failing: save what you can. See: dmesg | tail"),
    "login-keys-memory": N_("nothing to do here"),
    "memory-full": N_("see what takes it: ps axo rss,pid,args --sort -rss | head"),
    "memory-little": N_("a larger training needs a larger machine, or a higher limit of the container"),
    "memory-unknown": N_("see: cat /proc/meminfo /proc/self/cgroup"),
    "shared-memory-full": N_("what is left of dead trainings: ls -lh /dev/shm; rm what nothing uses"),
    "sessions-broken": N_("{broken} --version; install it anew"),
    "sockets-refused": N_("see: ls -ld ~/.cloudrun /tmp; df -h ~ /tmp   (one of them must take files)"),
    "pty-refused": N_("as root: mount -t devpts -o ptmxmode=666,gid=5 devpts /dev/pts; till then --backend detached"),
    "locale-none": N_("as root: apt-get install -y locales; locale-gen en_US.UTF-8"),
    "packages-interrupted": N_("as root: dpkg --configure -a"),
    "gpu-not-installed": N_("without a card trainings run on the CPU; with one, install NVIDIA's driver, then: cloudrun gpu"),
    "gpu-no-device": N_("without a card trainings run on the CPU; is one plugged in: lspci | grep -i nvidia"),
    "gpu-no-card-mode": N_("without a card trainings run on the CPU; is one plugged in: lspci | grep -i nvidia"),
    "gpu-driver-mismatch": N_("restart this machine. Then: cloudrun gpu"),
    "gpu-driver-unreachable": N_("restart this machine; if it stays, install the driver anew. Then: cloudrun gpu"),
    "gpu-gpu-lost": N_("switch this machine off and on. Then: cloudrun gpu"),
    "gpu-timeout": N_("the driver is stuck: restart this machine. Then: cloudrun gpu"),
    "gpu-error": N_("run nvidia-smi and read what it says. Then: cloudrun gpu"),
}
