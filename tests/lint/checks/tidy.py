"""clang-tidy with the positive list in .clang-tidy."""
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CONFIG = Path(__file__).resolve().parents[3] / ".clang-tidy"
WARNING = re.compile(r"^(.*?):(\d+):\d+: (?:warning|error): (.*)$")


def database(tree):
    """The folder of compile_commands.json; made for a small tree."""
    if (tree.build / "compile_commands.json").exists():
        return tree.build
    tree.build.mkdir(parents=True, exist_ok=True)
    rows = [{"directory": str(tree.root), "file": str(tree.root / n), "command": f"cc -c {n}"}
            for n in tree.files(".c")]
    (tree.build / "compile_commands.json").write_text(json.dumps(rows))
    return tree.build


def tidy(tree, build, name):
    done = subprocess.run(["clang-tidy", "--quiet", "-p", build, f"--config-file={CONFIG}",
                           tree.root / name], capture_output=True, text=True)
    found = [f"{os.path.relpath(m.group(1), tree.root)}:{m.group(2)}: {m.group(3)}"
             for m in map(WARNING.match, done.stdout.splitlines()) if m]
    if done.returncode != 0 and not found:
        found.append(f"{name}: clang-tidy failed: {done.stderr.strip()[-300:]}")
    return found


def check(tree):
    build = database(tree)
    known = {os.path.realpath(row["file"])
             for row in json.loads((build / "compile_commands.json").read_text())}
    names = [n for n in tree.files(".c", below=("service/", "confine/"))
             if os.path.realpath(tree.root / n) in known]
    if not names:
        return [f"{build}: no source of this tree is in compile_commands.json"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda n: tidy(tree, build, n), names)
    return sorted({line for lines in results for line in lines})


GOOD = {"service/base/a.c": "int f(int a);\nint f(int a)\n{\n    while (a) {\n        if (a > 1) {\n"
                            "            if (a > 2) {\n                a--;\n            }\n        }\n"
                            "    }\n    return 0;\n}\n"}
BAD = [
    ("a function of too many statements",
     {"service/base/b.c": "int f(int a)\n{\n" + "    a++;\n" * 121 + "    return a;\n}\n"}, "function-size"),
    ("no braces", {"service/base/b.c": "int f(int a)\n{\n    if (a)\n        return 1;\n    return 0;\n}\n"},
     "braces"),
    ("an order of strings by a constant",
     {"service/base/b.c": "#include <string.h>\nint f(const char *p)\n{\n    return strcmp(p, \"x\") == -1;\n}\n"},
     "suspicious"),
    ("the same condition twice",
     {"service/base/b.c": "int f(int a)\n{\n    if (a == 1 && a == 1) {\n        return 1;\n    }\n    return 0;\n}\n"},
     "redundant"),
]
