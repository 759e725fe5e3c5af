"""Every word in English and Chinese: none missing, none stale, none that goes past the catalogue."""

from __future__ import annotations

import ast
import os
import plistlib
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudrun import i18n
from cloudrun.app.init import example
from cloudrun.cli.widths import cells
from cloudrun.i18n import CHINESE, language, languages_of_macos
from cloudrun.project.templates import session_template, template_text
from tools import words

ROOT = Path(__file__).parents[2]
#: Calls whose words a user reads, where a plain text would stay English.
SHOWING = {"say", "out", "confirm", "ask", "add_column"}


@pytest.mark.parametrize("domain", list(words.DOMAINS))
def test_the_catalogue_is_what_the_code_says_and_whole(domain: str) -> None:
    catalog = words.merged(domain)
    assert words.missing(catalog) == []
    assert words.po_file(domain).read_bytes() == words.as_po(catalog), "run: make words"
    assert words.po_file(domain).with_suffix(".mo").read_bytes() == words.as_mo(catalog), "run: make words"


@pytest.mark.parametrize("domain", list(words.DOMAINS))
def test_both_languages_speak_of_the_same_things(domain: str) -> None:
    for message in words.merged(domain):
        if message.id:
            assert sorted(fields(str(message.id))) == sorted(fields(str(message.string))), message.id
            assert str(message.id).count("%s") == str(message.string).count("%s"), message.id
            for command in re.findall(r"cloudrun (?:" + "|".join(COMMANDS) + r")\b|--[a-z-]{3,}", str(message.id)):
                assert command in str(message.string), message.id


COMMANDS = ("host", "init", "doctor", "launch", "ps", "logs", "attach", "gpu", "stop", "rm")


def fields(text: str) -> list[str]:
    try:
        parts = string.Formatter().parse(text)
        return [f"{name}!{conversion}:{spec}" for _text, name, spec, conversion in parts if name is not None]
    except ValueError:  # shell text with braces, which is never formatted
        return []


def sources(*packages: str) -> Iterator[tuple[Path, ast.Module]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def plain(node: ast.AST) -> bool:
    """A text with a word in it that is not handed to `_`."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(re.search(r"[A-Za-z]{2}", node.value))
    if isinstance(node, ast.JoinedStr):
        return any(plain(part) for part in node.values)
    return False


def test_nothing_that_is_shown_goes_past_the_catalogue() -> None:
    found = []
    for path, tree in sources("cloudrun"):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            texts = [keyword.value for keyword in node.keywords if keyword.arg in ("help", "epilog")]
            if name in SHOWING:
                texts += node.args[:1]
            if name == "CloudrunError":
                texts += [keyword.value for keyword in node.keywords if keyword.arg == "detail"]
            found += [f"{path.name}:{text.lineno}" for text in texts if plain(text)]
    # How an exception of Python's is named is the same in every language.
    assert [one for one in found if not one.startswith("main.py")] == []


#: Two words and more, with nothing of a shell's text or a pattern in them.
PROSE = re.compile(r"[A-Za-z]{2,}[,:]? [a-z]{2,}")
CODE = re.compile(r"[$|\\{}]|\(\?|&&|\bimport |; (?:do|done|fi|then|cd|case|exec|umask|trap)\b")
#: Prose that no user reads, by file: why.
NOT_SHOWN = {
    "verdict.py": "what programs of others say", "gpu.py": "what nvidia-smi says", "training.py": "what torch says",
    "packages.py": "what package managers say", "usage.py": "what typer says", "runs.py": "styles",
    "protocol.py": "only a defect brings it forth", "records.py": "only a defect brings it forth",
    "transitions.py": "only a defect brings it forth", "watch.py": "only a defect brings it forth",
    "assembled.py": "only a defect brings it forth", "link.py": "the library's own log", "tee.py": "help of an inner program",
    "settings.py": "what msgspec says",
    "__main__.py": "help of an inner program", "windows.py": "help of an inner program", "installing.py": "a type",
}
#: The same by text: names of commands and styles, and reasons that are caught and said in other words.
NOT_SHOWN_TEXTS = {
    "cloudrun attach", "cloudrun logs", "cloudrun host use", "bash run.sh", "cut short", "taken twice", "no sftp subsystem",
    "no hello", "the command reads no more", "the command has ended",
    "the log ended without an end", "the package ", " is not installed",
}
STYLE = re.compile(r"(?:default )?(?:not )?bold(?: default| red| yellow)?|default not bold")


def unmarked(tree: ast.Module) -> Iterator[ast.Constant]:
    """Texts that are neither handed to `_` or `N_` nor documentation."""
    marked: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            marked.add(id(node.value))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("_", "N_"):
            marked.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in marked:
            yield node


def test_no_sentence_stands_unmarked_on_either_side() -> None:
    found = [
        f"{path}:{text.lineno}: {text.value}" for path, tree in sources("cloudrun", "remote_agent") if path.name not in NOT_SHOWN
        for text in unmarked(tree)
        if PROSE.search(text.value) and not CODE.search(text.value)
        and text.value not in NOT_SHOWN_TEXTS and not STYLE.fullmatch(text.value)
    ]
    assert found == []


def test_what_is_marked_is_a_text_that_can_be_gathered() -> None:
    for path, tree in sources("cloudrun", "remote_agent"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "N_":
                assert isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_":
                assert not isinstance(node.args[0], ast.JoinedStr), f"{path}:{node.lineno}"


@pytest.mark.parametrize(("env", "expected"), [
    ({"CLOUDRUN_LANG": "zh", "LANG": "en_US.UTF-8"}, CHINESE), ({"CLOUDRUN_LANG": "zh-CN"}, CHINESE),
    ({"CLOUDRUN_LANG": "zh_TW.UTF-8"}, CHINESE), ({"CLOUDRUN_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
    ({"CLOUDRUN_LANG": "fr"}, "en"), ({"LANG": "zh_CN.UTF-8"}, CHINESE), ({"LANG": "de_DE.UTF-8"}, "en"),
    ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"), ({"LC_ALL": "zh_CN.GBK"}, CHINESE), ({"LC_MESSAGES": "zh_HK"}, CHINESE),
    ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, CHINESE), ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, "en"), ({}, "en"),
    ({"LANG": "fr_FR.UTF-8", "LANGUAGE": "fr:zh_CN:en"}, CHINESE), ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en_GB:zh"}, "en"),
])
def test_the_language_is_the_locales_unless_it_is_said(env: dict[str, str], expected: str) -> None:
    assert language(env) == expected


def test_a_mac_whose_terminal_sets_no_locale_is_asked_for_its_languages(tmp_path: Path) -> None:
    preferences = tmp_path / "preferences.plist"
    for kind in (plistlib.FMT_BINARY, plistlib.FMT_XML):
        preferences.write_bytes(plistlib.dumps({"AppleLanguages": ["zh-Hans-US", "en-US"]}, fmt=kind))
        assert languages_of_macos(preferences) == ["zh-Hans-US", "en-US"]
    for damaged in (b"", b"bplist00 and no more", b"<?xml version='1.0'?><plist", plistlib.dumps(["zh"])):
        preferences.write_bytes(damaged)
        assert languages_of_macos(preferences) == []
    assert languages_of_macos(tmp_path / "none") == []


@pytest.fixture
def in_chinese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CLOUDRUN_LANG", "zh")
    i18n._translation.cache_clear()
    yield
    i18n._translation.cache_clear()


@pytest.mark.usefixtures("in_chinese")
def test_the_session_says_in_chinese_how_it_is_left() -> None:
    for name, key in (("screenrc", "Ctrl-a"), ("tmux.conf", "Ctrl-b")):
        assert f"按 {key} d 离开" in session_template(name, None)
        assert "按 Ctrl-j d 离开" in session_template(name, "^Jj")


@pytest.mark.usefixtures("in_chinese")
def test_the_chinese_example_differs_from_the_english_in_its_comments_alone() -> None:
    said = {"english": template_text("cloudrun.toml"), "chinese": example()}
    assert said["chinese"].startswith("# 在这个文件夹里")
    settings = [[re.sub(r"\s+# .*", "", line) for line in text.splitlines() if re.match(r"(# )?[\w\[]+.*[=\]]", line)]
                for text in said.values()]
    assert settings[0] == settings[1]
    assert len(settings[0]) == 20
    assert len(said["english"].splitlines()) == len(said["chinese"].splitlines())


def spoken(*arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "CLOUDRUN_"))}
    return subprocess.run([sys.executable, "-m", "cloudrun", *arguments], cwd=ROOT, capture_output=True, timeout=60, check=False,
                          env={**clean, "COLUMNS": "80", **env})


def test_a_user_reads_chinese() -> None:
    done = spoken("lanch", CLOUDRUN_LANG="zh", PYTHONUTF8="1")
    assert "没有命令 'lanch'；相近的有：launch" in done.stderr.decode()
    assert done.stderr.decode().startswith("错误")
    assert "--grace 要写数字" in spoken("stop", "x", "--grace", "soon", CLOUDRUN_LANG="zh", PYTHONUTF8="1").stderr.decode()


def test_a_terminal_that_cannot_show_chinese_reads_english() -> None:
    done = spoken("--help", CLOUDRUN_LANG="zh", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.startswith(b"Usage: cloudrun")


EVERY_PAGE = """\
import os, sys
from cloudrun.cli.commands import COMMANDS
from cloudrun.cli.main import run
of_host = (["host", name] for name in ("add", "set", "ls", "show", "use", "rm", "trust"))
for words in ([], *([name] for name in COMMANDS), *of_host):
    assert run([*words, "--help"]) == 0
"""


def test_every_page_of_help_fits_eighty_columns_in_chinese() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_PAGE], cwd=ROOT, capture_output=True, timeout=60, check=True,
        env={**os.environ, "CLOUDRUN_LANG": "zh", "COLUMNS": "80", "PYTHONUTF8": "1"})
    pages = done.stdout.decode().splitlines()
    assert len(pages) > 150
    assert [line for line in pages if cells(line) > 80] == []
    said = [line for line in pages if re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", re.sub(r"`.*?`|\".*?\"|cloudrun .*", "", line))]
    assert said == []  # no sentence of English is left


def test_english_needs_no_catalogue() -> None:
    code = "import sys, cloudrun.i18n as i; print(i._('error'), i._translation())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
                          env={**os.environ, "CLOUDRUN_LANG": "en"})
    assert done.stdout.split() == ["error", "None"]


def test_the_chinese_readme_is_a_full_sibling() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
    for text, other in ((english, "README.zh-CN.md"), (chinese, "README.md")):
        assert f"]({other})" in text
    assert re.findall(r"(?m)^#+", english) == re.findall(r"(?m)^#+", chinese)
    assert re.findall(r"(?ms)^```.*?^```", english) == re.findall(r"(?ms)^```.*?^```", chinese)
    for command_column in (r"(?m)^\| (`[^`|]*`)", r"(?m)^\| (\d+) \|"):
        assert re.findall(command_column, english) == re.findall(command_column, chinese)
    assert sorted(set(re.findall(r"--[a-z-]+", english))) == sorted(set(re.findall(r"--[a-z-]+", chinese)))


def test_the_chinese_readme_has_the_exit_codes_as_the_command_says_them() -> None:
    code = ("from cloudrun.errors.exit_codes import MEANINGS\nfrom cloudrun.i18n import _\n"
            "for exit_, words in MEANINGS.items(): print(f'| {int(exit_)} | {_(words)} |')")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True,
                          env={**os.environ, "CLOUDRUN_LANG": "zh", "PYTHONUTF8": "1"})
    assert done.stdout.decode() in (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
