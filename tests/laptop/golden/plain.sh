#!/usr/bin/env bash
# Launch 2, written once by `cloudrun launch`. The supervisor starts it; by hand (`bash run.sh`) it runs the same command
# and keeps a log of its own. Names that begin with cloudrun_ are this script's. Needs bash 4.2 (lastpipe, dates in printf).
set +eu

# ---------------------------------------------------------------- the texts at the heart, as they were written
# TMPDIR: before bash 5.1 a here-document is a file in $TMPDIR, else in /tmp, and a full system disk must not cost the run.

cloudrun_command_text() {
    local TMPDIR=/dev/shm LC_ALL=C
    IFS= read -r -d '' cloudrun_text <<'CLOUDRUN_TEXT'
python train.py --lr 1e-4
CLOUDRUN_TEXT
    cloudrun_text=${cloudrun_text%$'\n'}
}

# ---------------------------------------------------------------- before it
cloudrun_say() { # a format and what it takes
    local cloudrun_words
    printf -v cloudrun_words "$@"
    printf 'cloudrun: %s\n' "$cloudrun_words" >&2
}
cloudrun_fail() {
    cloudrun_say "$@"
    exit 125
}

cloudrun_activate() { # a login shell here has conda first, by a line of ~/.bashrc that only interactive shells reach
    local cloudrun_root
    [ -z "${CONDA_PREFIX-}${VIRTUAL_ENV-}" ] || return
    for cloudrun_root in "${cloudrun_conda_roots[@]}"; do
        if [ -x "$cloudrun_root/bin/python" ] && cloudrun_wanted "/${cloudrun_root##*/}/bin"; then
            export PATH="$cloudrun_root/bin:$PATH"
            return
        fi
    done
}
cloudrun_wanted() { # before the system's Python always, before another on PATH where a start-up file puts it there
    case $(type -P python) in '' | /bin/python | /usr/bin/python) return 0 ;; esac
    grep -qs '^auto_activate.*: *[Ff]alse' /root/.condarc && return 1
    grep -qs "^[^#]*$1" /root/.{bashrc,bash_profile,profile,zshrc,zshenv,tcshrc,cshrc,config/fish/config.fish}
}
cloudrun_conda_roots=(
    /root/miniconda3 /root/{miniconda3,anaconda3,miniforge3,mambaforge}
    /opt/{conda,miniconda3,anaconda3,miniforge3} /usr/local/{miniconda3,anaconda3}
)

cloudrun_prepare() {
    export CLOUDRUN_RUN_DIR=$cloudrun_run_dir CLOUDRUN_ATTEMPT CLOUDRUN_DATA_DIR=/root/autodl-tmp
    export PYTHONUNBUFFERED=1 PYTHONIOENCODING=utf-8
    export LANG=C.UTF-8 LC_ALL=C.UTF-8
    cd -- /root/cloudrun/vision/exp_resnet50 || cloudrun_fail 'the working folder cannot be entered: %s' /root/cloudrun/vision/exp_resnet50
    cloudrun_activate
    [ "${PYTORCH_CUDA_ALLOC_CONF+set}${PYTORCH_ALLOC_CONF+set}" ] || export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    [ "${HF_HOME+set}" ] || export HF_HOME=/root/autodl-tmp/cloudrun/cache/huggingface
    [ "${TORCH_HOME+set}" ] || export TORCH_HOME=/root/autodl-tmp/cloudrun/cache/torch
    [ "${XDG_CACHE_HOME+set}" ] || export XDG_CACHE_HOME=/root/autodl-tmp/cloudrun/cache/xdg
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$cloudrun_agent" # last: nothing of the user's is hidden by ours
}

# ---------------------------------------------------------------- the heart
# As long as our parent is still bash, it would reap us, and how we ended would be lost to the tee that it is to become.
cloudrun_await_tee() {
    local name deadline=$((SECONDS + 20))
    while read -r name <"/proc/$$/comm" && [ "$name" = "$cloudrun_shell" ] && [ $SECONDS -lt $deadline ]; do
        sleep 0.005
    done 2>/dev/null
}

cloudrun_heart() {
    trap '' TSTP # the tee goes on under Ctrl-Z, and so does this
    cloudrun_await_tee
    cloudrun_prepare
    case $CLOUDRUN_STEP in
    command)
        cloudrun_command_text ;;
    *) cloudrun_fail 'this launch has no step %s' "$CLOUDRUN_STEP" ;;
    esac
    [ -n "$cloudrun_text" ] || cloudrun_fail 'the %s is not to be had: bash could keep it neither in /dev/shm nor in /tmp' "$CLOUDRUN_STEP"
    local cloudrun_step=$CLOUDRUN_STEP
    unset CLOUDRUN_SUPERVISED CLOUDRUN_STEP CLOUDRUN_LOG CLOUDRUN_EXIT_RECORD
    # Bash gives its place to a last command that ends the text, so that signals and exit code are the command's own.
    # A set-up of many lines fails (-e) where one of them does.
    [ "$cloudrun_step" = setup ] && exec "$BASH" -e -c -- "$cloudrun_text" setup
    exec "$BASH" -c -- "$cloudrun_text" exp_resnet50
}

cloudrun_python=/root/miniconda3/bin/python
cloudrun_agent=/root/.cloudrun/agent/0123456789ab
cloudrun_run_dir=/root/autodl-tmp/cloudrun/runs/exp_resnet50
if [ "${CLOUDRUN_SUPERVISED-}" = 1 ]; then
    cloudrun_run_dir=$CLOUDRUN_RUN_DIR
    cloudrun_tee=(--log "$CLOUDRUN_LOG" --current ${CLOUDRUN_EXIT_RECORD:+--exit-record "$CLOUDRUN_EXIT_RECORD"})
else
    CLOUDRUN_STEP=command CLOUDRUN_ATTEMPT=0
    TZ=UTC0 printf -v cloudrun_log '%s/logs/by-hand-%(%Y%m%dT%H%M%SZ)T.log' "$cloudrun_run_dir" -1
    cloudrun_say 'the log is %s' "$cloudrun_log"
    cloudrun_tee=(--log "$cloudrun_log" --by-hand)
fi
[ -x "$cloudrun_python" ] || cloudrun_fail 'the agent'\''s Python is gone: %s' "$cloudrun_python"
[ -e "$cloudrun_agent" ] || cloudrun_fail 'the agent is gone: %s; any cloudrun command to this box brings it back' "$cloudrun_agent"

read -r cloudrun_shell <"/proc/$$/comm"
# Under lastpipe (without job control) this very shell becomes the tee, and so the command's parent, who reads its wait status.
shopt -s lastpipe
( cloudrun_heart ) 2>&1 | {
    trap '' INT TERM HUP QUIT TSTP TTIN TTOU PIPE # from now on, not only once Python is up
    exec "$cloudrun_python" -I "$cloudrun_agent" tee --limit 2000000000 "${cloudrun_tee[@]}"
}
