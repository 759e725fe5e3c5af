"""The part of `launch` that brings the code, as a program of its own. Run: python -m bench.send HOST RUN, in the project.

A launch asks for the tree to be put in place within its request; here that is one more command on the same connection.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer  # noqa: F401 (the command has it loaded when it comes to this)

from cloudrun.agent import bootstrap
from cloudrun.agent.code import send_code
from cloudrun.cli.context import Context
from cloudrun.project.manifest import build_manifest
from remote_agent.protocol import Spec

_APPLY = (
    "import sys; sys.path.insert(0, sys.argv[1]); from remote_agent import code; "
    "code.apply(sys.argv[2], sys.argv[2], sys.argv[3], sys.argv[4])"
)


def main() -> None:
    host, run = sys.argv[1:]
    project = Path.cwd()
    context = Context()
    with context.open_host(context.host(host)) as box:
        manifest = build_manifest(project)
        staging = send_code(box.client, manifest, Spec(run, project.name, project.name, "true", "."), lambda _sent, _all: None)
        hello = box.client.hello
        words = [hello.python, "-I", "-S", "-c", _APPLY, hello.agent_dir, project.name, run, staging]
        applying = box.transport.exec(bootstrap.shell_line(words))
        assert applying.exit_status(60.0) == 0, applying.stderr_tail().decode()


if __name__ == "__main__":
    main()
