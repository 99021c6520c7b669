"""No writable global state: nothing of the archives lies in a writable section but what is listed."""
import re
import subprocess

# (module, symbol) -> why it may be.
ALLOWED = {
    ("base", "floor_level"): "the log level",
    ("base", "last"): "the newest id stamp of the process (atomic)",
}

ROW = re.compile(r"^[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)\s+(?:\.hidden )?(\S+)$")
# .data.rel.ro holds constants with pointers; the linker makes it read-only (relro).
WRITABLE = re.compile(r"^(\.data|\.bss|\.tdata|\.tbss)(?!\.rel\.ro)|^\*COM\*$")


def writable_symbols(path):
    out = subprocess.run(["objdump", "-t", path], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        match = ROW.match(line)
        if not match or int(match.group(3), 16) == 0 or "d" in match.group(1)[-2:-1]:
            continue
        if WRITABLE.match(match.group(2)):
            yield re.sub(r"\.\d+$", "", match.group(4)), match.group(2)


def check(tree):
    objects = tree.objects()
    if not objects:
        return [f"{tree.build}: there is nothing built to look at"]
    return [f"{path.name}: writable global {name} in {section}"
            for module, path in objects
            for name, section in writable_symbols(path) if (module, name) not in ALLOWED]


GOOD = {
    "service/base/log.c": "static _Atomic int floor_level = 1;\n"
                          "void gh_log_level(int n) { floor_level = n; }\n",
    "service/base/id.c": "int gh_id(void) { static _Atomic int last; return last++; }\n",
    "service/gate/a.c": "static const char *const names[] = {\"a\", \"b\"};\n"
                        "const struct { const char *name; int n; } gate_rows[] = {{\"x\", 1}};\n"
                        "const char *gate_name(int i) { return names[i]; }\n",
}
BAD = [
    ("a counter", {"service/gate/b.c": "static int n = 1; int gate_n(void) { return n++; }\n"},
     "writable global n"),
    ("a zeroed one", {"service/gate/b.c": "static int n; int gate_n(void) { return n++; }\n"},
     "writable global n in .bss"),
    ("a static in a function",
     {"service/gate/b.c": "int gate_n(void) { static int calls; return calls++; }\n"}, "global calls"),
    ("a thread-local", {"service/gate/b.c": "_Thread_local int gate_error;\n"}, "gate_error in .tbss"),
    ("a table that lacks one const",
     {"service/gate/b.c": "const char *gate_words[] = {\"a\"};\n"}, "gate_words"),
    ("an allowed name elsewhere", {"service/gate/b.c": "int last = 3;\n"}, "writable global last"),
]
