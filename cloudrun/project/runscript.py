"""`run.sh`: a pure function of the launch and of what is known of its box."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

import jinja2

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.project.quoting import heredoc_delimiter, shell_word
from cloudrun.project.settings import RunSettings
from cloudrun.project.templates import template_text
from remote_agent import protocol

#: Where caches go unless the user says otherwise; below `<data>/cloudrun/cache` (remote_agent.layout.Data.caches).
_CACHES = {"HF_HOME": "huggingface", "TORCH_HOME": "torch", "XDG_CACHE_HOME": "xdg"}
#: What decides which Python, and which libraries and cards it sees. No other value of the user's goes to the doctor.
_PYTHONS = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_VISIBLE_DEVICES")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
#: Bash gives these a meaning or a value of its own.
_BASHS_OWN = frozenset((
    "_", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND",
    "BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO", "BASH_VERSION", "COMP_WORDBREAKS", "DIRSTACK",
    "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "IFS", "LINENO", "OLDPWD", "OPTIND",
    "PIPESTATUS", "POSIXLY_CORRECT", "PPID", "PWD", "RANDOM", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "UID",
))


def render(spec: protocol.Spec, facts: protocol.BoxFacts, launch: int, secret_file: str | None) -> str:
    """The script's text, LF. Raises CloudrunError: a variable that bash keeps for itself, a NUL character."""
    for name in spec.env:
        _check_variable(name)
    text = _template().render(
        launch=launch,
        run=spec.run,
        command=_bash_text(spec.command),
        resume=None if spec.resume_command is None else _bash_text(spec.resume_command),
        setup=None if spec.setup is None else _bash_text(spec.setup),
        workdir=_at_home(spec.workdir, facts.home),
        conda_env=None if spec.conda_env is None else _at_home(spec.conda_env, facts.home),
        activate=spec.activate,
        activate_places=_places(spec, facts),
        activate_words=" ".join(map(shell_word, _places(spec, facts))),
        env=spec.env,
        secret_file=secret_file,
        secret_names=spec.secret_names,
        cards=_cards(spec.gpus),
        caches={name: posixpath.join(facts.data_dir, "cloudrun", "cache", folder) for name, folder in _CACHES.items()},
        network_turbo=spec.network_turbo,
        log_limit_bytes=spec.log_limit_bytes,
        **{field: getattr(facts, field) for field in
           ("home", "python", "agent_dir", "data_dir", "run_dir", "utf8_locale")},
    )
    if "\0" in text:
        raise CloudrunError("nul-character", value=spec.command.replace("\0", "\\0"))
    return text


def activation(settings: RunSettings, home: str, trees: str) -> str:
    """Bash text that leaves the shell with the Python that a run of these settings would get, or ends it: 125, and why.

    `trees`: the project's folder on the box. A relative `activate` is looked for in whatever tree of it has it.
    """
    places = _anywhere(settings, home, trees)
    return _environment().get_template("doctor.sh.j2").render(
        home=home, conda_env=None if settings.conda_env is None else _at_home(settings.conda_env, home),
        activate=settings.activate, activate_words=" ".join("*".join(map(shell_word, parts)) for parts in places),
        activate_places=["*".join(parts) for parts in places],
        env={name: str(value) for name, value in settings.env.items() if name in _PYTHONS},
        cards=_cards(settings.gpus),
    )


def _anywhere(settings: RunSettings, home: str, trees: str) -> list[tuple[str, ...]]:
    """Where `activate` may be meant; of a place in a tree what stands before and after the tree's name."""
    if settings.activate is None:
        return []
    place = _at_home(settings.activate, home)
    workdir = _at_home(settings.workdir or "", home)
    inside = posixpath.join(workdir, place)
    if inside.startswith("/"):
        return [(inside,)]
    return list(dict.fromkeys([(f"{trees}/", f"/{posixpath.normpath(inside)}"), (f"{trees}/", f"/{place}")]))


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    return _environment().get_template("run.sh.j2")


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_text), undefined=jinja2.StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, newline_sequence="\n",
    )
    environment.globals["_"] = _
    environment.filters["word"] = shell_word
    environment.filters["delimiter"] = heredoc_delimiter
    return environment


def _cards(gpus: list[int] | None) -> str | None:
    return None if gpus is None else ",".join(str(card) for card in gpus)


def _bash_text(text: str) -> str:
    """The user's text without line ends at its end: bash gives its place to a last command that ends the text."""
    return re.sub(r"(?<!\\)\n+\Z", "", text)


def _at_home(path: str, home: str) -> str:
    """`~` spelled out: inside quotes bash would not."""
    return posixpath.join(home, path[2:]) if path == "~" or path.startswith("~/") else path


def _places(spec: protocol.Spec, facts: protocol.BoxFacts) -> list[str]:
    """Where `activate` may be meant: a relative one in the working folder or at the top of the code."""
    if spec.activate is None:
        return []
    path = _at_home(spec.activate, facts.home)
    folders = dict.fromkeys([_at_home(spec.workdir, facts.home), facts.tree])
    return list(dict.fromkeys(posixpath.join(folder, path) for folder in folders))


def _check_variable(name: str) -> None:
    if not _VARIABLE.match(name) or name in _BASHS_OWN or name.lower().startswith("cloudrun_"):
        raise CloudrunError("env-name", name=name)
