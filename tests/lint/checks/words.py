"""Words that must not be: goto; notes to be done later; paths and hosts of one machine."""
import re

TEXTS = (".c", ".h", ".def", ".txt", ".cmake", ".py", ".js", ".mjs", ".css", ".html", ".sh", ".md",
         ".yaml", ".yml", ".json", ".sql", ".service", ".npmrc", "dev", "run")
# Written in pieces, so that this file does not hold them itself.
LATER = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"])
HOSTS = "|".join(["deb[.]debian[.]org", "snapshot[.]debian[.]org", "registry[.]npm" + "js[.]org",
                  "registry[.]yarn" + "pkg[.]com", "py" + "pi[.]org", "files[.]python" + "hosted[.]org",
                  "proxy[.]gol" + "ang[.]org", "static[.]crates[.]io"])
RULES = [
    (re.compile(rf"\b({LATER})\b"), "a note to be done later"),
    (re.compile(HOSTS), "a host of a package registry"),
    (re.compile(r"(?<![\w.])/wo" + r"rk/|/tmp/b-\w|/home/(?!u\b|you\b|user\b|me\b|alice\b|bob\b|dev\b|ann\b|ana\b|somebody\b)\w+/"),
     "a path of one machine"),
]
GOTO = re.compile(r"\bgo" + r"to\b")


def check(tree):
    found = []
    for name in tree.files(*TEXTS):
        text = tree.text(name)
        for number, line in enumerate(text.splitlines(), 1):
            found += [f"{name}:{number}: {why}: {line.strip()[:80]}" for rule, why in RULES
                      if rule.search(line)]
        if name.endswith((".c", ".h")):
            code = tree.code(name)
            found += [f"{name}:{code.count(chr(10), 0, m.start()) + 1}: a jump; use gh_auto"
                      for m in GOTO.finditer(code)]
    return found


GOOD = {
    "service/base/a.c": "/* There is no go" + "to here. */\nconst char *s = \"go" + "to\";\n",
    "README.md": "Put it into `/home/you/project/` and run the network's own tests.\n",
}
BAD = [
    ("a jump", {"service/base/b.c": "int f(void)\n{\n    go" + "to out;\n}\n"}, "b.c:3: a jump"),
    ("a note", {"service/base/b.c": "/* TO" + "DO: later */\n"}, "b.c:1: a note"),
    ("a note in a script", {"dev": "# FIX" + "ME\n"}, "dev:1: a note"),
    ("a registry in a lock file",
     {"tests/browser/package-lock.json": '"https://registry.npm' + 'js.org/x"\n'}, "a host"),
    ("a path", {"README.md": "cd /wo" + "rk/main\n"}, "README.md:1: a path"),
    ("a build folder", {"CONTRIBUTING.md": "ninja -C /tmp/b-" + "gate\n"}, "a path"),
    ("a home", {"tests/a.py": "open('/home/karl" + "/x')\n"}, "a path"),
]
