"""Functions of at most 80 lines and 6 parameters (ret… and err, the convention, not counted), files
of at most 600 lines, main.c of 150."""
import json
import re
import subprocess

MAX_FUNCTION, MAX_PARAMETERS, MAX_FILE, MAX_MAIN = 80, 6, 600, 150


def functions(tree, names):
    out = subprocess.run(["ctags", "--languages=C", "--kinds-C=f", "--fields=+neS", "-f", "-",
                          "--output-format=json", *names], cwd=tree.root, check=True,
                         capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def parameters(signature):
    """Those of "(int a, void (*fn)(int, int))": split at commas of depth one."""
    depth, found = 0, [""]
    for c in signature.strip():
        if c == "," and depth == 1:
            found.append("")
        else:
            found[-1] += c
        depth += (c == "(") - (c == ")")
    return found


def n_parameters(signature):
    return sum(not re.search(r"\b(ret\w*|err)\)?$", p) for p in parameters(signature))


def check(tree):
    found = []
    names = tree.files(".c", ".h", below=("service/", "confine/", "tests/"))
    for name in names:
        n, most = tree.text(name).count("\n"), MAX_MAIN if name.endswith("/main.c") else MAX_FILE
        if n > most:
            found.append(f"{name}:{n}: the file is longer than {most} lines")
    for f in functions(tree, names) if names else []:
        lines = f.get("end", f["line"]) - f["line"] + 1
        if lines > MAX_FUNCTION:
            found.append(f"{f['path']}:{f['line']}: {f['name']} has {lines} lines")
        if n_parameters(f.get("signature", "()")) > MAX_PARAMETERS:
            found.append(f"{f['path']}:{f['line']}: {f['name']} takes more than {MAX_PARAMETERS} parameters")
    return found


def body(n):
    return "int f(int a, int b, void (*c)(int, int), int d, int e, int g)\n{\n" + "    a++;\n" * n + \
        "    return a;\n}\n"


GOOD = {"service/base/a.c": body(76),
        "service/base/c.c": "int f(int a, int b, int c, int d, int e, int f, int *ret_x, struct gh_err *err)\n{\n}\n",
        "service/main.c": "\n" * 150, "tests/unit/b.c": "\n" * 600}
BAD = [
    ("a long function", {"service/base/a.c": body(77)}, "a.c:1: f has 81 lines"),
    ("a long file", {"service/base/b.c": "\n" * 601}, "b.c:601: the file"),
    ("a long main", {"service/main.c": "\n" * 151}, "longer than 150"),
    ("seven and an error", {"service/base/b.c": "int f(int a, int b, int c, int d, int e, int f, int g, "
                                                "struct gh_err *err)\n{\n}\n"}, "f takes more than 6"),
    ("seven parameters",
     {"service/base/b.c": "int f(int a, int b, int c, int d,\n      int e, int f, int g)\n{\n}\n"},
     "f takes more than 6"),
]
