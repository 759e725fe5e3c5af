#!/usr/bin/env bash
# Brings the real parts where they are missing and may be installed: root on Debian or Ubuntu. Says what is missing else.
# Arguments: more of them, as PROGRAM:PACKAGE.
set -u
more="$*"
missing() {
  local program package
  for pair in sshd:openssh-server ssh:openssh-client ssh-keygen:openssh-client screen:screen tmux:tmux git:git ps:procps unshare:util-linux \
    tcsh:tcsh fish:fish zsh:zsh $more; do
    program=${pair%%:*} package=${pair#*:}
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null 2>&1 || echo "$package"
  done | sort -u
  # Debian's Python comes without what a virtual environment needs.
  python3 -c 'import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 || echo python3-venv
}
wanted=$(missing)
[ -z "$wanted" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing:" $wanted
  export DEBIAN_FRONTEND=noninteractive
  install() { apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 $wanted </dev/null >/dev/null 2>&1; }
  install || { apt-get update -q </dev/null >/dev/null 2>&1; install; }
fi
wanted=$(missing)
[ -z "$wanted" ] && exit 0
echo "missing on this machine, and not installable from here:" $wanted >&2
exit 1
