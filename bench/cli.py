"""cloudrun beside the tools one would use without it: interleaved pairs, medians, ranges, ratios. Nothing is asserted.

Run: python -m bench.cli [--markdown] [--pairs N] [NAME …]; the names are those of `COMPARISONS`. The box is a real sshd on
loopback; far away is the same one behind a link of 50 ms round trip (bench/delay.py).
"""

from __future__ import annotations

import argparse
import compileall
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import code, logs, tables
from bench.pairs import Contest, Result, run
from bench.world import World
from cloudrun.agent import archive
from tests.support.agentdir import unpacked_agent

HOSTS = 16


def help_page(world: World) -> Iterator[Contest]:
    yield Contest(
        "`cloudrun --help` / bare `import typer`",
        lambda: world.run([sys.executable, "-c", "import typer"]), lambda: world.run(world.cloudrun("--help")), aim=1.3, pairs=21)


def cold_gpu(world: World) -> Iterator[Contest]:
    box = world.box("box")
    world.far("far", box)
    for name, where, aim in (("box", "loopback", None), ("far", world.FAR, 1.2)):
        ssh, ours = ["ssh", name, "nvidia-smi"], world.cloudrun("gpu", "-H", name)
        assert b"RTX 4090" in world.output(ssh)
        assert b"RTX 4090" in world.output(ours)
        yield Contest(f"cold `cloudrun gpu` / `ssh box nvidia-smi`, {where}", partial(world.run, ssh), partial(world.run, ours),
                      aim=aim, pairs=11)


def many_hosts(world: World) -> Iterator[Contest]:
    """As many sshds, but one machine: its processors serve them all and the laptop too."""
    for number in range(HOSTS):
        world.box(f"box{number}")
    one, every = world.cloudrun("ps", "-H", "box0", "--json"), world.cloudrun("ps", "--all-hosts", "--json")
    assert json.loads(world.output(every)) == {"runs": [], "errors": []}
    yield Contest(f"`ps` of {HOSTS} hosts (all on this machine) / of one", partial(world.run, one), partial(world.run, every),
                  aim=5)


COMPARISONS: dict[str, Callable[[World], Iterator[Contest]]] = {
    "help": help_page, "gpu": cold_gpu, "bulk": logs.bulk, "line": logs.line, "ps": many_hosts, "code": code.sync,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cli", description="cloudrun beside other tools")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMPARISONS)}; else all")
    parser.add_argument("--markdown", action="store_true", help="a table for docs/BENCHMARKS.md")
    parser.add_argument("--pairs", type=int, help="pairs of each comparison, instead of its own number")
    given = parser.parse_args()
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="cloudrun-bench-") as folder:
        agent = unpacked_agent(Path(folder) / "agents" / archive.installed().sha12)
        compileall.compile_dir(agent, quiet=2)
        for name in given.names or COMPARISONS:
            with World.made(Path(folder) / name, agent) as world:
                for contest in COMPARISONS[name](world):
                    result = run(contest if given.pairs is None else replace(contest, pairs=given.pairs))
                    print(tables.line(result), file=sys.stderr, flush=True)
                    results.append(result)
    if given.markdown:
        print(tables.markdown(results))


if __name__ == "__main__":
    main()
