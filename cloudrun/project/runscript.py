"""`run.sh`: a pure function of the launch and of what is known of its box."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

import jinja2

from cloudrun.errors import CloudrunError
from cloudrun.project.quoting import heredoc_delimiter, shell_word
from cloudrun.project.templates import template_text
from remote_agent import protocol

#: Where caches go unless the user says otherwise; below `<data>/cloudrun/cache` (remote_agent.layout.Data.caches).
_CACHES = {"HF_HOME": "huggingface", "TORCH_HOME": "torch", "XDG_CACHE_HOME": "xdg"}
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
        env=spec.env,
        secret_file=secret_file,
        secret_names=spec.secret_names,
        cards=None if spec.gpus is None else ",".join(str(card) for card in spec.gpus),
        caches={name: posixpath.join(facts.data_dir, "cloudrun", "cache", folder) for name, folder in _CACHES.items()},
        network_turbo=spec.network_turbo,
        log_limit_bytes=spec.log_limit_bytes,
        **{field: getattr(facts, field) for field in
           ("home", "python", "agent_dir", "data_dir", "run_dir", "utf8_locale")},
    )
    if "\0" in text:
        raise CloudrunError("nul-character", value=spec.command.replace("\0", "\\0"))
    return text


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_text), undefined=jinja2.StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, newline_sequence="\n",
    )
    environment.filters["word"] = shell_word
    environment.filters["delimiter"] = heredoc_delimiter
    return environment.get_template("run.sh.j2")


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
