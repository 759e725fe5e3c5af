"""Becomes `__main__.py` at the root of the agent's folder: `python -I FOLDER MODE …`.

It is read by whatever Python the box offers, so it keeps to words that every Python 3 reads, and it says what
is wrong (an interpreter that is too old, a file of the agent that is gone) where the hello is expected.
"""

import json
import os
import sys

OLDEST = (3, 8)


def damage_in(folder: str) -> str:
    """The first file that is not as it was unpacked, or "". Sizes only: this runs at every start."""
    try:
        with open(os.path.join(folder, "files")) as listed:
            for line in listed:
                size, name = line.rstrip("\n").split(" ", 1)
                if os.stat(os.path.join(folder, name)).st_size != int(size):
                    return name
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _say(**fields: object) -> None:
    """Answers in the hello's place and ends."""
    nonce = sys.argv[sys.argv.index("--nonce") + 1]
    sys.stdout.write("\nCLOUDRUN/1 %s %s\n" % (nonce, json.dumps(fields)))
    sys.stdout.flush()
    sys.exit(0)


def _main() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    spoken_to = "--nonce" in sys.argv
    if spoken_to and sys.version_info < OLDEST:
        _say(too_old="%d.%d" % sys.version_info[:2], python=sys.executable)
    damage = damage_in(folder) if spoken_to else ""
    if damage:
        _say(broken=damage, root=os.path.dirname(folder), python=sys.executable)
    try:
        from remote_agent.__main__ import main
    except (ImportError, SyntaxError, ValueError) as error:
        if not spoken_to:
            raise
        _say(broken=repr(error), root=os.path.dirname(folder), python=sys.executable)
    sys.exit(main())


if __name__ == "__main__":
    _main()
