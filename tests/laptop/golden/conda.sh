#!/usr/bin/env bash
# Launch 2, written once by `cloudrun launch`. The supervisor starts it; by hand (`bash run.sh`) it runs the same command
# and keeps a log of its own. Names that begin with cloudrun_ are this script's. Needs bash 4.2 (lastpipe, dates in printf).
set +eu

# ---------------------------------------------------------------- the texts at the heart, as they were written
# TMPDIR: before bash 5.1 a here-document is a file in $TMPDIR, else in /tmp, and a full system disk must not cost the run.

cloudrun_setup_text() {
    local TMPDIR=/dev/shm LC_ALL=C
    IFS= read -r -d '' cloudrun_text <<'CLOUDRUN_TEXT'
pip install -r requirements.txt
CLOUDRUN_TEXT
    cloudrun_text=${cloudrun_text%$'\n'}
}

cloudrun_command_text() {
    local TMPDIR=/dev/shm LC_ALL=C
    IFS= read -r -d '' cloudrun_text <<'CLOUDRUN_TEXT'
export OMP_NUM_THREADS=8
python train.py  # 训练
CLOUDRUN_TEXT
    cloudrun_text=${cloudrun_text%$'\n'}
}

cloudrun_resume_text() {
    local TMPDIR=/dev/shm LC_ALL=C
    IFS= read -r -d '' cloudrun_text <<'CLOUDRUN_TEXT'
python train.py --resume
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

cloudrun_activate() { # conda.sh makes `conda activate` work without an interactive shell
    local cloudrun_root cloudrun_found
    cloudrun_found=$(type -P conda)
    for cloudrun_root in "${CONDA_EXE:+${CONDA_EXE%/*/*}}" "${cloudrun_found%/*/*}" "${cloudrun_conda_roots[@]}" ""; do
        if [ -r "$cloudrun_root/etc/profile.d/conda.sh" ]; then
            . "$cloudrun_root/etc/profile.d/conda.sh"
            conda activate 'torch 2.1' ||
                cloudrun_fail 'conda environment %s cannot be activated; conda is in %s' 'torch 2.1' "${cloudrun_root:-/}"
            return
        fi
    done
    cloudrun_fail 'conda environment %s cannot be activated: no conda in the usual places' 'torch 2.1'
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
    [ ! -r /etc/network_turbo ] || . /etc/network_turbo
    cloudrun_activate
    export A='it'\''s $HOME `x`'
    export B='two
lines'
    export C='中文 空格'
    { set +xv; } 2>/dev/null # traced by hand, this script still shows no secret
    if [ -r /root/.cloudrun/secrets/exp_resnet50-002.env ]; then
        . /root/.cloudrun/secrets/exp_resnet50-002.env
    else
        cloudrun_say 'without %s: there is no %s' WANDB_API_KEY /root/.cloudrun/secrets/exp_resnet50-002.env
    fi
    export CUDA_VISIBLE_DEVICES=0,3
    [ "${CUDA_DEVICE_ORDER+set}" ] || export CUDA_DEVICE_ORDER=PCI_BUS_ID
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
    setup) cloudrun_setup_text ;;
    command)
        if [ "$CLOUDRUN_ATTEMPT" -gt 1 ]; then cloudrun_resume_text; else cloudrun_command_text; fi ;;
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
    exec "$cloudrun_python" -I "$cloudrun_agent" tee --limit 1000000 "${cloudrun_tee[@]}"
}
