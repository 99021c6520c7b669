"""Includes point to the own folder or to a lower layer; each library has one home."""
import re

LAYER = {"base": 0, "config": 1, "text": 1, "scan": 1, "store": 1, "http": 1, "run": 1, "auth": 2,
         "gate": 2, "core": 3, "api": 4, "cli": 4}

# Header (a prefix) -> where it may be included. Tests may include any.
HOMES = {
    "microhttpd.h": ("service/http/",),
    "sqlite3.h": ("service/store/",),
    "git2": ("service/text/", "service/gate/", "service/checkpoint/"),
    "curl/": ("service/cli/client.c",),
    "cyaml/": ("service/config/",),
    "yaml.h": ("service/config/",),
    "jansson.h": ("service/base/json.c",),
    "sodium": ("service/base/id.c",),
    "uni": ("service/text/",),
    "seccomp.h": ("confine/",),
    "linux/landlock.h": ("confine/", "service/cli/doctor_kernel.c"),
}
# "uni" stands for libunistring's headers; this one is the system's.
SYSTEM = {"unistd.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def own_module(name):
    parts = name.split("/")
    return parts[1] if parts[0] == "service" and len(parts) > 2 else ""


def refuse_project(tree, name, header):
    """Why `name` may not include "header", or None."""
    folder = name.rsplit("/", 1)[0]
    if tree.exists(f"{folder}/{header}") and "/" not in header:
        return None
    if name.startswith("confine/"):
        return None if tree.exists(f"confine/{header}") else "confine/ stands alone"
    if header == "spec.h" and tree.exists("confine/spec.h"):
        return None if name.startswith("service/run/") else "only service/run/ uses the confiner"
    if not tree.exists(f"service/{header}"):
        return "there is no such header below service/"
    mine, theirs = own_module(name), header.split("/")[0]
    if mine == "" or mine == theirs:
        return None
    if mine not in LAYER or theirs not in LAYER:
        return "this module has no layer in tests/lint/checks/layers.py"
    if LAYER[theirs] >= LAYER[mine]:
        return f"{mine} (layer {LAYER[mine]}) may not use {theirs} (layer {LAYER[theirs]})"
    return None


def refuse_library(name, header):
    if header in SYSTEM:
        return None
    for prefix, homes in HOMES.items():
        if header.startswith(prefix) and not name.startswith(homes):
            return f"its place is {' or '.join(homes)}"
    return None


def check(tree):
    found = []
    for name in tree.files(".c", ".h", ".def", below=("service/", "confine/")):
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(2)
            why = (refuse_project(tree, name, header) if match.group(1) == '"'
                   else refuse_library(name, header))
            if why:
                found.append(f"{name}:{number}: includes {header}: {why}")
    return found


GOOD = {
    "service/base/err.h": "#include <unistd.h>\n",
    "service/base/json.c": "#include <jansson.h>\n#include \"base/err.h\"\n",
    "service/http/http.h": "#include \"base/err.h\"\n",
    "service/http/a.c": "#include <microhttpd.h>\n#include \"inner.h\"\n",
    "service/http/inner.h": "",
    "service/store/store.h": "",
    "service/core/core.h": "#include \"store/store.h\"\n#include \"http/http.h\"\n",
    "service/main.c": "#include \"core/core.h\"\n",
    "confine/a.h": "",
    "confine/spec.h": "",
    "service/run/a.c": "#include \"spec.h\"\n",
    "confine/a.c": "#include \"a.h\"\n#include <seccomp.h>\n",
}
BAD = [
    ("upwards", {"service/base/a.c": '#include "http/http.h"\n'}, "a.c:1: includes http/http.h"),
    ("sideways", {"service/store/a.c": '\n#include "http/http.h"\n'}, "a.c:2: includes http/http.h"),
    ("a header that is not there", {"service/core/a.c": '#include "core/none.h"\n'}, "no such header"),
    ("a module without a layer", {"service/new/a.c": '#include "base/err.h"\n'}, "has no layer"),
    ("confine uses the service", {"confine/b.c": '#include "base/err.h"\n'}, "stands alone"),
    ("the confiner outside run", {"service/core/a.c": '#include "spec.h"\n'}, "only service/run/"),
    ("SQL outside the store", {"service/core/a.c": "#  include <sqlite3.h>\n"}, "its place"),
    ("jansson outside json.c", {"service/base/a.c": "#include <jansson.h>\n"}, "its place"),
    ("libunistring elsewhere", {"service/gate/a.c": "#include <unictype.h>\n"}, "its place"),
    ("HTTP library in the core", {"service/core/a.h": "#include <microhttpd.h>\n"}, "its place"),
    ("Landlock in the service", {"service/api/a.c": "#include <linux/landlock.h>\n"}, "its place"),
]
