"""Functions of at most 80 lines, 3 levels of nesting and 6 parameters (ret… and err, the convention,
not counted), files of at most 600 lines, main.c of 150. Nesting is counted here and not by clang-tidy,
which sees the blocks inside GH_TRY."""
import json
import re
import subprocess

MAX_FUNCTION, MAX_NESTING, MAX_PARAMETERS, MAX_FILE, MAX_MAIN = 80, 3, 6, 600, 150

# Function -> who dictates its parameters.
DICTATED = {"http_exchange_step": "libmicrohttpd's request handler"}

# A block opens behind a blank ("if (x) {", "else {", a macro that loops); an initialiser or a compound
# literal does not ("= {" is told apart by its sign).
OPENS = re.compile(r"(?:\)|\belse|\bdo)\s+$")


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


def nesting(code):
    """Levels of blocks inside the body of the function that `code` holds."""
    blocks, deepest = [], 0
    for at, c in enumerate(code):
        if c == "{":
            blocks.append(bool(OPENS.search(code[max(0, at - 40):at])))
            deepest = max(deepest, sum(blocks))
        elif c == "}" and blocks:
            blocks.pop()
    return deepest - 1


def refuse_function(f, body):
    lines = len(body)
    if lines > MAX_FUNCTION:
        yield f"has {lines} lines"
    if f["path"].startswith("tests/"):
        return
    if nesting("\n".join(body)) > MAX_NESTING:
        yield f"nests deeper than {MAX_NESTING} levels"
    if n_parameters(f.get("signature", "()")) > MAX_PARAMETERS and f["name"] not in DICTATED:
        yield f"takes more than {MAX_PARAMETERS} parameters"


def check(tree):
    found = []
    names = tree.files(".c", ".h", below=("service/", "confine/", "tests/"))
    for name in names:
        n, most = tree.text(name).count("\n"), MAX_MAIN if name.endswith("/main.c") else MAX_FILE
        if n > most:
            found.append(f"{name}:{n}: the file is longer than {most} lines")
    code = {name: tree.code(name).split("\n") for name in names}
    for f in functions(tree, names) if names else []:
        body = code[f["path"]][f["line"] - 1:f.get("end", f["line"])]
        found += [f"{f['path']}:{f['line']}: {f['name']} {why}" for why in refuse_function(f, body)]
    return found


def body(n):
    return "int f(int a, int b, void (*c)(int, int), int d, int e, int g)\n{\n" + "    a++;\n" * n + \
        "    return a;\n}\n"


NEST = ("int n(int a)\n{\n    struct s x = {{1}, {{2}}};\n    while (a) {\n        if (a) {\n"
        "            x = (struct s){.y = {{{3}}}};\n            each(a, b)\n            {\n%s"
        "            }\n        } else {\n        }\n    }\n}\n")
GOOD = {"service/base/n.c": NEST % "", "service/base/a.c": body(76),
        "service/base/c.c": "int f(int a, int b, int c, int d, int e, int f, int *ret_x, struct gh_err *err)\n{\n}\n",
        "service/main.c": "\n" * 150, "tests/unit/b.c": "\n" * 600}
BAD = [
    ("deep nesting", {"service/base/n.c": NEST % "                if (a) {\n                }\n"},
     "n nests deeper"),
    ("a long function", {"service/base/a.c": body(77)}, "a.c:1: f has 81 lines"),
    ("a long file", {"service/base/b.c": "\n" * 601}, "b.c:601: the file"),
    ("a long main", {"service/main.c": "\n" * 151}, "longer than 150"),
    ("seven and an error", {"service/base/b.c": "int f(int a, int b, int c, int d, int e, int f, int g, "
                                                "struct gh_err *err)\n{\n}\n"}, "f takes more than 6"),
    ("seven parameters",
     {"service/base/b.c": "int f(int a, int b, int c, int d,\n      int e, int f, int g)\n{\n}\n"},
     "f takes more than 6"),
]
