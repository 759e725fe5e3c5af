"""The text that the training's Python runs to say what it is. It may be any Python from 2.7 on, so it is kept that old."""

from __future__ import annotations

import json
from typing import Any, Dict

MARK = "@cloudrun-doctor@"

#: First itself, at once; then torch, which may take long. Each line stands alone: what an activation prints is skipped.
TEXT = r'''
import sys, json
def say(**told):
    sys.stdout.write("\n" + sys.argv[1] + json.dumps(told) + "\n")
    sys.stdout.flush()
say(path=sys.executable, version="%d.%d.%d" % tuple(sys.version_info[:3]), prefix=sys.prefix)
def words(error):
    return (type(error).__name__ + ": " + str(error)).split("\n")[0][:300]
def driver():
    import ctypes
    number = ctypes.c_int(0)
    try:
        code = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return None
    return "%d.%d" % (number.value // 1000, number.value % 1000 // 10) if code == 0 and number.value else None
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        import torch
    except ImportError as error:
        missing = getattr(error, "name", None) == "torch" or str(error).startswith("No module named torch")
        say(missing=True) if missing else say(broken=words(error))
    except BaseException as error:
        say(broken=words(error))
    else:
        try:
            version = getattr(torch, "version", None)
            cuda = torch.cuda.is_available()
            say(torch=str(torch.__version__), cuda=getattr(version, "cuda", None), hip=getattr(version, "hip", None),
                available=bool(cuda), devices=int(torch.cuda.device_count()) if cuda else 0, driver=driver(),
                why=" ".join(" ".join(str(one.message).split()) for one in caught if "CUDA" in str(one.message))[:600])
        except BaseException as error:
            say(broken=words(error))
sys.stdout.flush()
'''


def parse(text: str) -> Dict[str, Any]:
    """All that was said, in one dictionary; lines that are not ours, or cut off, are skipped."""
    found: Dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith(MARK):
            try:
                found.update(json.loads(line[len(MARK):]))
            except ValueError:
                continue
    return found
