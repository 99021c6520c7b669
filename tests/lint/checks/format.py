"""C files are as .clang-format has them."""
import re
import subprocess
from pathlib import Path

STYLE = Path(__file__).resolve().parents[3] / ".clang-format"
WHERE = re.compile(r"^(.*?):(\d+):\d+: error: code should be clang-formatted")


def check(tree):
    names = tree.files(".c", ".h", below=("service/", "confine/", "tests/"))
    if not names:
        return []
    done = subprocess.run(["clang-format", f"--style=file:{STYLE}", "--dry-run", "-Werror", *names],
                          cwd=tree.root, capture_output=True, text=True)
    found = [f"{m.group(1)}:{m.group(2)}: not formatted; run ./dev format"
             for m in map(WHERE.match, done.stderr.splitlines()) if m]
    if done.returncode != 0 and not found:
        found.append(done.stderr.strip())
    return found


GOOD = {"service/base/a.c": "int f(int x)\n{\n    if (x) {\n        return 1;\n    }\n    return 0;\n}\n"}
BAD = [
    ("an opening brace", {"service/base/b.c": "int f(int x) {\n    return x;\n}\n"}, "b.c:1: not"),
    ("two spaces", {"tests/unit/b.c": "int f(int x)\n{\n  return x;\n}\n"}, "b.c:2: not"),
]
