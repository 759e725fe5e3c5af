"""`make words`: gathers what the code says to users, merges it into the Chinese catalogue, and compiles that.

With --check nothing is written; the exit code is 1 where the catalogue is not what the code says, or not whole.
"""

from __future__ import annotations

import io
import sys
from datetime import datetime, timezone
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parents[1]
#: Where words for users stand, and the catalogue that is shipped with them.
DOMAINS = {"cloudrun": ROOT / "cloudrun", "agent": ROOT / "remote_agent"}
GLOSSARY = """\
Terms, the same everywhere: run 训练 (name of one: 训练名), session 会话, box 机器, host 主机, host key 主机密钥, key 密钥,
attempt 第 n 次尝试, launch 启动, checkpoint 检查点, data disk 数据盘, system disk 系统盘, network disk 网络盘, agent 代理程序,
supervisor 守护进程, log 日志, card/GPU 显卡 / GPU, driver 驱动, memory 内存 (of a card: 显存), grace 宽限时间, instance 实例.
Commands, options, paths and names of programs stay as they are; a blank stands between Chinese and Latin words;
punctuation is full-width in Chinese sentences. The reader is a tired student: short sentences, what to type in plain sight."""


def po_file(domain: str) -> Path:
    return DOMAINS[domain] / "locale" / "zh_CN" / "LC_MESSAGES" / f"{domain}.po"


def gathered(domain: str) -> set[str]:
    """Every message of the code."""
    found = extract_from_dir(str(DOMAINS[domain]), method_map=[("**.py", "python")], keywords={"_": None, "N_": None})
    if domain == "cloudrun":
        templates = extract_from_dir(str(ROOT / "templates"), method_map=[("**.j2", "jinja2.ext:babel_extract")],
                                     keywords={"_": None})
        return {str(one[2]) for one in (*found, *templates)}
    return {str(one[2]) for one in found}


def read(domain: str) -> Catalog:
    path = po_file(domain)
    if not path.exists():
        return Catalog(locale="zh_CN", domain=domain)
    with path.open("rb") as stream:
        return read_po(stream, locale="zh_CN", domain=domain)


def merged(domain: str) -> Catalog:
    """The catalogue with the code's messages and no others; what is translated stays."""
    old = read(domain)
    new = Catalog(locale="zh_CN", domain=domain, header_comment="# " + GLOSSARY.replace("\n", "\n# "), fuzzy=False)
    for message in sorted(gathered(domain)):
        known = old.get(message)
        new.add(message, known.string if known is not None and not known.fuzzy else "")
    return new


def as_po(catalog: Catalog) -> bytes:
    """Without dates, versions and places, which change without anything having changed."""
    out = io.BytesIO()
    write_po(out, catalog, omit_header=True, width=120, sort_output=True)
    comment = "".join(line + "\n" for line in catalog.header_comment.splitlines())
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
    return (comment + header).encode() + out.getvalue()


def as_mo(catalog: Catalog) -> bytes:
    """As gettext reads it, without what changes by itself."""
    catalog.creation_date = catalog.revision_date = datetime(2026, 1, 1, tzinfo=timezone.utc)
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def missing(catalog: Catalog) -> list[str]:
    return [str(message.id) for message in catalog if message.id and not message.string]


def main(arguments: list[str]) -> int:
    wrong = 0
    for domain in DOMAINS:
        catalog = merged(domain)
        po = po_file(domain)
        for path, content in ((po, as_po(catalog)), (po.with_suffix(".mo"), as_mo(catalog))):
            if arguments == ["--check"]:
                wrong += not path.exists() or path.read_bytes() != content
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        left = missing(catalog)
        print(f"{domain}: {len(list(catalog)) - 1} messages, {len(left)} without Chinese", *left[:20], sep="\n  ")
        wrong += bool(left)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
