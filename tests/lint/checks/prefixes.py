"""An exported name starts with its folder's name or that of a file in it (in the singular or the
plural), so that a reader knows where to look; base uses gh_."""
import re
import subprocess
from pathlib import Path

# Folder -> more nouns that it owns beside its own name and its files'.
# core is one thing in many files: the nouns of its domain, each a struct or a subject of state.h.
NOUNS = {"core": {"answer", "archived", "clock", "decision", "finding", "idem", "judged", "meta", "policy", "put", "query",
                  "reply", "settlement", "stream", "taint", "ticket", "trace", "traces", "warning"}}
# Never a prefix of ours: the libraries own them.
LIBRARIES = {"json", "git", "curl", "sqlite3", "seccomp", "MHD", "cyaml", "sodium"}

MEMBER = re.compile(r"^.*?([\w.-]+\.c)\.o:\s*$")
ROW = re.compile(r"^[0-9a-f]+ [A-Za-z] (\w+)$")


def exported(path):
    """(source file, name) of each exported symbol of an archive."""
    out = subprocess.run(["nm", "-g", "--defined-only", path], check=True, capture_output=True,
                         text=True).stdout
    source = path.name[:-2] if path.suffix == ".o" else ""
    for line in out.splitlines():
        member, row = MEMBER.match(line), ROW.match(line)
        if member:
            source = member.group(1)
        elif row and not row.group(1).startswith(("__asan", "__odr_asan", "_ZN", "__gcov")):
            yield source, row.group(1)


def nouns(stem):
    """rules_names -> rules_names, rules, rule."""
    first = stem.split("_")[0]
    return {stem, first, first.removesuffix("s"), first + "s"}


def owned_prefixes(tree, module):
    if module == "base":
        return {"gh"}
    stems = {Path(n).stem for n in tree.files(".c", ".h", below=(f"service/{module}/",))}
    return ({module} | NOUNS.get(module, set())).union(*map(nouns, stems))


def check(tree):
    objects = [(m, p) for m, p in tree.objects() if m != "main"]
    if not objects:
        return [f"{tree.build}: there is nothing built to look at"]
    modules = {m for m, _ in objects}
    found = []
    for module, path in objects:
        mine = owned_prefixes(tree, module)
        for source, name in exported(path):
            where, first = f"service/{module}/{source}: {name}", name.split("_")[0]
            if not any(name == p or name.startswith(p + "_") for p in mine):
                found.append(f"{where} starts with no name of its folder or of a file in it")
            if first in LIBRARIES or first in modules - {module}:
                found.append(f"{where} looks like {first}'s")
    return found


GOOD = {
    "service/base/json.c": "int gh_json_parse(void) { return 0; }\nstatic int parse(void);\n"
                           "int gh_x(void) { return parse(); }\nstatic int parse(void) { return 1; }\n",
    "service/http/router.c": "int http_serve(void) { return 0; }\nint router_match;\n",
    "service/http/rules_names.c": "int rule_of(void) { return 0; }\nint rules_n(void) { return 1; }\n",
}
BAD = [
    ("no prefix", {"service/http/a.c": "int serve(void) { return 0; }\n"}, "serve starts with no"),
    ("a prefix without its underscore", {"service/http/a.c": "int https(void) { return 0; }\n"},
     "https starts with no"),
    ("base without gh_", {"service/base/buf.c": "int buf_put(void) { return 0; }\n"}, "buf_put starts"),
    ("a library's", {"service/http/json.c": "int json_x(void) { return 0; }\n"}, "looks like json's"),
    ("another module's", {"service/http/base.c": "int base_x(void) { return 0; }\n"},
     "looks like base's"),
]
