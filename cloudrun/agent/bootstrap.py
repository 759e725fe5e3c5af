"""The two commands that start the agent: one that finds it on the box, one that unpacks what was just sent.

Both are one line that every login shell (bash, dash, zsh, fish, csh) hands on unharmed: words in single quotes
without `!`, newline or backslash inside them, everything that varies as an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cloudrun.errors import CloudrunError
from remote_agent import protocol

#: Seconds a candidate for the interpreter may take to say its version.
PROBE_S = 10

# Names: s agent, n nonce, w configured Python, m mode, f "reprobe" or "", c Python text that says what is missing,
# j and k what stands before and after the list of candidates where no Python can say it.
_SETTINGS = "s=$1 n=$2 w=$3 m=$4 f=$5 c=$6 j=$7 k=$8; shift 8; a=; py="

# Said first, so that a login shell that never comes to our command is told from an agent that does not start.
_REACHED = 'echo "CLOUDRUN-SH $n"'

# A start-up file that set PATH without what was in it: nothing that the agent or a training calls would be found.
_PATH = (
    'case :${PATH-}: in *:/usr/bin:*) ;; *) PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin; export PATH ;; esac'
)
_EXEC = _PATH + '; exec "$@"'

# Where the login names no home, the account's own. Nowhere else is one made: /dev/null is no folder.
_HOME = 'h=${HOME:-$(eval "echo ~$(id -un)")}; case $h in /*) ;; *) h=/dev/null ;; esac'

# The agent lies in the home, or, where the home takes no writes, in a folder of ours under TMPDIR. There a stranger
# may have been first: it counts only when it is ours and no link.
_FIND_AGENT = (
    'r=$h/.cloudrun/agent; if [ -f "$r/$s/__main__.py" ]; then a=$r/$s; else '
    't=${TMPDIR:-/tmp}; [ -d "$t" ] || t=/tmp; t=$t/cloudrun-$(id -u); if [ -h "$t" ]; then :; '
    'elif [ -O "$t" ] && [ -f "$t/agent/$s/__main__.py" ]; then a=$t/agent/$s; fi; fi'
)

# The interpreter as it was found last time, for the same setting.
_RECORDED = (
    'if [ -n "$a" ] && [ -z "$f" ] && [ -r "$a/python" ]; then '
    '{ IFS= read -r py; IFS= read -r o; } <"$a/python"; '
    'if [ "$o" = "$w" ] && [ -x "$py" ]; then :; else py=; fi; fi'
)

# The folders of conda are those of templates/activate.sh.j2.
_CANDIDATES = (
    'python3 python "${CONDA_EXE:+${CONDA_EXE%/*}/python}" /root/miniconda3/bin/python "$h/miniconda3/bin/python" '
    '/opt/conda/bin/python "$h/anaconda3/bin/python" "$h/miniforge3/bin/python" "$h/mambaforge/bin/python" '
    "/opt/miniconda3/bin/python /opt/anaconda3/bin/python /opt/miniforge3/bin/python /usr/local/miniconda3/bin/python "
    '/usr/local/anaconda3/bin/python /root/anaconda3/bin/python /root/miniforge3/bin/python "$h/.pyenv/shims/python3" '
    "/usr/bin/python3 /usr/local/bin/python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8"
)

# Says major*1000+minor and the interpreter's own path: a pyenv shim is slow and follows the folder it is called in.
_PROBE_ONE = (
    'case $p in "~/"*) p=$h/${p#"~/"} ;; */*) ;; *) p=$(command -v "$p" 2>/dev/null) || p= ;; esac; '
    'v=; e=; if [ -n "$p" ] && [ -x "$p" ]; then '
    'v=$($l "$p" -I -S -c "import sys;v=sys.version_info;print(v[0]*1000+v[1],sys.executable)" </dev/null 2>/dev/null); '
    'e=${v#* }; v=${v%% *}; [ -x "$e" ] || e=$p; fi'
)

# A configured one that works wins; else the first >= 3.10, else the first >= 3.8.
_PROBE = (
    'if [ -z "$py" ]; then l=; if command -v timeout >/dev/null 2>&1; then l="timeout -s KILL ' + str(PROBE_S) + '"; fi; '
    "d=; x=; for q in \"$w\" " + _CANDIDATES + '; do if [ -z "$q" ]; then continue; fi; p=$q; ' + _PROBE_ONE + "; "
    'x="$x$q:$v|"; if [ "$v" -ge 3008 ] 2>/dev/null; then :; else continue; fi; '
    'if [ "$q" = "$w" ] || [ "$v" -ge 3010 ]; then py=$e; break; fi; d=${d:-$e}; done; py=${py:-$d}; '
    'if [ -n "$py" ] && [ -n "$a" ]; then (umask 077; printf "%s" "$py" >"$a/.python-$n" && echo >>"$a/.python-$n" && '
    'printf "%s" "$w" >>"$a/.python-$n" && echo >>"$a/.python-$n" && mv -f "$a/.python-$n" "$a/python") 2>/dev/null; fi; fi'
)

# -S: the agent needs nothing of site-packages, and some boxes pay a tenth of a second for what starts from there.
_START = (
    'if [ -n "$py" ] && [ -n "$a" ]; then exec "$py" -I -S "$a" "$m" --nonce "$n" --agent "$s" "$@"; fi'
)

# Nothing that could start: the place for the agent is made ready, and a Python says so (its JSON is always right).
_PLACE = (
    'umask 077; mkdir -p "$r" 2>/dev/null; if [ -d "$r" ] && [ -w "$r" ]; then :; else r=; '
    'mkdir -m 700 "$t" 2>/dev/null; if [ -h "$t" ]; then :; elif [ -O "$t" ] && chmod 700 "$t"; then '
    'mkdir -p "$t/agent" && r=$t/agent; fi; fi'
)
_MISSING = (
    'if [ -n "$py" ]; then ' + _PLACE + '; exec "$py" -I -S -c "$c" "$n" "$h" "$py" "$r"; fi; '
    'x=$(printf "%s" "$x" | tr -c "A-Za-z0-9_./:|~+-" "?"); echo; echo "CLOUDRUN/1 $n $j$x$k"'
)

# A Python that was built on a bare image may lack zlib.
_SAY_MISSING = (
    "import json,sys;a=sys.argv;v=sys.version_info;"
    'exec("try:import zlib"+chr(10)+"except ImportError:zlib=None");'
    'print(chr(10)+"CLOUDRUN/1 "+a[1]+" "+json.dumps(dict(missing=True,home=a[2],python=a[3],root=a[4],'
    'plain=not zlib,version="%d.%d.%d"%v[:3])))'
)

_NO_PYTHON = ('{"missing":true,"tried":"', '"}')

_SCRIPT = "; ".join((_SETTINGS, _REACHED, _PATH, _HOME, _FIND_AGENT, _RECORDED, _PROBE, _START, _MISSING))

# Nothing of the archive runs before its hash is right.
_CHECK_AND_INSTALL = (
    'import hashlib,json,sys;a=sys.argv;f=open(a[1],"rb");d=f.read();f.close();'
    "ok=hashlib.sha256(d).hexdigest()==a[2];"
    'ok or print(chr(10)+"CLOUDRUN/1 "+a[6]+" "+json.dumps(dict(damaged=len(d))));'
    "ok or sys.exit();sys.path.insert(0,a[1]);"
    "from remote_agent.install import main;sys.exit(main(a[1:2]+a[3:]))"
)


@dataclass(frozen=True)
class Start:
    """What is to run: a mode of the agent with its arguments. `host_python`: as the host's settings name it."""

    agent: str
    nonce: str
    mode: str
    host_python: str = ""
    arguments: tuple[str, ...] = ()


def reached(nonce: str) -> bytes:
    """What stands in the output where the login shell came to our command."""
    return f"CLOUDRUN-SH {nonce}\n".encode()


def start_command(start: Start, *, reprobe: bool = False) -> str:
    """Becomes the agent where it is there; else says `{"missing": true, …}` in the hello's place.

    With `reprobe` the interpreter that was recorded is not believed.
    """
    return shell_line([
        "/bin/sh", "-c", _SCRIPT, "cloudrun", start.agent, start.nonce, start.host_python, start.mode,
        "reprobe" if reprobe else "", _SAY_MISSING, *_NO_PYTHON, *start.arguments,
    ])


def install_command(start: Start, python: str, part: str, sha256: str) -> str:
    """Checks and unpacks the archive that lies at `part`, then becomes the agent, in the same exec."""
    return shell_line([
        "/bin/sh", "-c", _EXEC, "cloudrun", python, "-I", "-c", _CHECK_AND_INSTALL, part, sha256, start.agent,
        start.host_python, start.mode, start.nonce, *start.arguments,
    ])


def attach_command(hello: protocol.Hello, run: str, mode: str, language: str) -> str:
    """Becomes the session of a run, in a pty; the agent that said `hello` is there, and says what it has to in that language."""
    attach = ("attach", "--run", run, "--mode", mode, "--lang", language)
    return shell_line(["/bin/sh", "-c", _EXEC, "cloudrun", hello.python, "-I", hello.agent_dir, *attach])


def shell_line(words: Sequence[str]) -> str:
    """Words as one line that every login shell splits into the same words. Raises CloudrunError for a newline in one."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """Single quotes around what is harmless in all shells; the rest stands outside them, behind a backslash."""
    if "\n" in word or "\r" in word or "\0" in word:
        raise CloudrunError("word-not-sendable", word=word)
    parts, plain = [], ""
    for character in word:
        if character in "\'\\!":
            parts.append(f"'{plain}'" if plain else "")
            parts.append("\\" + character)
            plain = ""
        else:
            plain += character
    parts.append(f"'{plain}'" if plain or not parts else "")
    return "".join(parts)
