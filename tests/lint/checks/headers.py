"""Each header compiles alone, twice in a row, and has the guard GH_<FOLDER>_<FILE>_H."""
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

LIBRARIES = ["libmicrohttpd", "jansson", "libsodium", "sqlite3", "libgit2", "libcurl", "libcyaml"]


def library_flags():
    out = subprocess.run(["pkg-config", "--cflags", *LIBRARIES], capture_output=True, text=True)
    return out.stdout.split()


def compile_alone(tree, name, flags):
    inside = name.removeprefix("service/")
    source = f'#include "{inside}"\n#include "{inside}"\n'
    done = subprocess.run(["cc", "-fsyntax-only", "-std=gnu17", "-D_GNU_SOURCE", '-DGH_VERSION="0"',
                           "-Wall", "-Wextra", "-Werror", "-I", tree.root / "service", "-I", tree.root,
                           "-I", tree.root / "confine",
                           *flags, "-x", "c", "-"], input=source, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    return [f"{name}: does not compile alone: {errors[0] if errors else ''}"] if done.returncode else []


def wrong_guard(tree, name):
    parts = name.removesuffix(".h").split("/")
    want = "GH_" + re.sub(r"\W", "_", "_".join(parts[1:] if parts[0] == "service" else parts)).upper() + "_H"
    text = tree.text(name)
    if f"#ifndef {want}\n#define {want}\n" not in text:
        return [f"{name}: the guard must be {want}"]
    return []


def check(tree):
    flags = library_flags()
    names = tree.files(".h", below=("service/", "confine/"))
    with ThreadPoolExecutor(2) as pool:
        compiled = pool.map(lambda n: compile_alone(tree, n, flags), names)
    found = [line for lines in compiled for line in lines]
    return found + [line for name in names for line in wrong_guard(tree, name)]


GOOD = {
    "service/base/a.h": "#ifndef GH_BASE_A_H\n#define GH_BASE_A_H\n#include <stddef.h>\n"
                        "size_t gh_a(void);\n#endif\n",
    "service/http/in-ner.h": "#ifndef GH_HTTP_IN_NER_H\n#define GH_HTTP_IN_NER_H\n"
                             "#include \"base/a.h\"\n#endif\n",
}
BAD = [
    ("a missing include", {"service/base/b.h": "#ifndef GH_BASE_B_H\n#define GH_BASE_B_H\n"
                                               "size_t gh_b(void);\n#endif\n"}, "b.h: does not compile"),
    ("no guard", {"service/base/b.h": "struct b {\n    int x;\n};\n"}, "b.h: does not compile"),
    ("another's guard", {"service/base/b.h": "#ifndef GH_BASE_A_H\n#define GH_BASE_A_H\n#endif\n"},
     "must be GH_BASE_B_H"),
]
