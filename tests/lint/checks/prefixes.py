"""An exported name starts with its folder's or its file's name; base uses gh_."""
import re
import subprocess
from pathlib import Path

# Nouns that a folder owns beside its own name and its files'.
NOUNS = {"base": {"gh"}}
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


def owner_prefixes(module, source):
    stem = Path(source).stem
    if module == "base":
        return NOUNS["base"]
    return {module, stem} | NOUNS.get(module, set())


def check(tree):
    objects = [(m, p) for m, p in tree.objects() if m != "main"]
    if not objects:
        return [f"{tree.build}: there is nothing built to look at"]
    modules = {m for m, _ in objects}
    found = []
    for module, path in objects:
        for source, name in exported(path):
            mine = owner_prefixes(module, source)
            if not any(name == p or name.startswith(p + "_") for p in mine):
                found.append(f"service/{module}/{source}: {name} must start with "
                             f"{' or '.join(sorted(p + '_' for p in mine))}")
            first = name.split("_")[0]
            if first in LIBRARIES or first in modules - {module}:
                found.append(f"service/{module}/{source}: {name} looks like {first}'s")
    return found


GOOD = {
    "service/base/json.c": "int gh_json_parse(void) { return 0; }\nstatic int parse(void);\n"
                           "int gh_x(void) { return parse(); }\nstatic int parse(void) { return 1; }\n",
    "service/http/router.c": "int http_serve(void) { return 0; }\nint router_match;\n",
}
BAD = [
    ("no prefix", {"service/http/a.c": "int serve(void) { return 0; }\n"}, "serve must start"),
    ("a prefix without its underscore", {"service/http/a.c": "int https(void) { return 0; }\n"},
     "https must start"),
    ("base without gh_", {"service/base/buf.c": "int buf_put(void) { return 0; }\n"}, "buf_put must"),
    ("a library's", {"service/http/json.c": "int json_x(void) { return 0; }\n"}, "looks like json's"),
    ("another module's", {"service/http/base.c": "int base_x(void) { return 0; }\n"},
     "looks like base's"),
]
