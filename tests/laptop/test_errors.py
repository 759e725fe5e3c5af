"""The catalogue: every error has words, a next command, and an exit code of one table that the README shows."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

from cloudrun.errors import CloudrunError, Exit
from cloudrun.errors.assembled import CATALOGUE
from cloudrun.errors.exit_codes import MEANINGS

ROOT = Path(__file__).parents[2]
RAISERS = {"CloudrunError", "AgentError"}


def raised_codes() -> dict[str, list[str]]:
    """Codes that the sources of both sides raise, with the files that do."""
    found: dict[str, list[str]] = {}
    for path in [*ROOT.glob("cloudrun/**/*.py"), *ROOT.glob("remote_agent/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", getattr(node.func, "attr", "")) not in RAISERS:
                continue
            if node.args and isinstance(node.args[0], ast.Constant):
                found.setdefault(str(node.args[0].value), []).append(path.name)
    return found


def test_every_code_that_is_raised_has_words() -> None:
    missing = {code: files for code, files in raised_codes().items() if code not in CATALOGUE}
    assert not missing


def test_every_entry_says_what_happened_and_what_to_type() -> None:
    for code, entry in CATALOGUE.items():
        assert entry.message.strip(), code
        assert entry.hint.strip(), code
        assert isinstance(entry.exit_code, Exit), code
        for template in (entry.message, entry.hint):
            list(string.Formatter().parse(template))  # raises ValueError for a broken template


def test_exit_codes_are_unique_explained_and_in_the_readme() -> None:
    assert set(MEANINGS) == set(Exit)
    assert len({int(code) for code in Exit}) == len(list(Exit))
    table = dict(re.findall(r"^\| (\d+) \| (.+?) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))
    assert {int(code) for code in table} == {int(code) for code in Exit}
    for code, meaning in MEANINGS.items():
        assert table[str(int(code))] == meaning


def test_a_missing_parameter_or_an_unknown_code_is_no_second_error() -> None:
    assert "?" in CloudrunError("run-died", run="x").message
    unknown = CloudrunError("of-next-year", what="x")
    assert "of-next-year" in unknown.message
    assert unknown.exit_code == Exit.INTERNAL
