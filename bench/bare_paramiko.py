"""`cat` by paramiko as it comes, to stdout: what the library alone can do.

Run: python bench/bare_paramiko.py PORT USER KEY PATH.
"""

from __future__ import annotations

import shlex
import sys

import paramiko


def main() -> None:
    port, user, key, path = sys.argv[1:]
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect("127.0.0.1", int(port), user, key_filename=key, allow_agent=False, look_for_keys=False)
    _stdin, stdout, _stderr = client.exec_command(f"cat {shlex.quote(path)}")
    while data := stdout.channel.recv(1 << 20):
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    client.close()


if __name__ == "__main__":
    main()
