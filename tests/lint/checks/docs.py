"""A header begins with its purpose, and each prototype is explained above it, behind it, or by the
comment over its group (prototypes without a blank line between them). A section's banner that says
what the section is, /* ---- reply.c: answers ---- */, counts for the group right below it."""
import re

PROTOTYPE = re.compile(r"^(?!\s*(?:typedef|return|static const)\b)[A-Za-z_][\w\s*]*?\b(\w+)\(", re.M)
BANNER = re.compile(r"/\* -+ [^\n]*: [^\n]* -+ \*/\n?")
# What may hide behind a parenthesis at the start of a line and is no prototype.
NOT_NAMES = {"__attribute__", "__extension__", "defined", "sizeof", "if", "while", "for", "switch"}


def blank_bodies(code):
    """Blank what is inside braces and preprocessor lines, keep the length."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), code,
                  flags=re.M)
    out, depth = [], 0
    for c in code:
        depth -= c == "}"
        out.append(c if depth <= 0 or c == "\n" else " ")
        depth += c == "{"
    return "".join(out)


def blocks(text):
    """(offset, text) of each run of lines without a blank line between them."""
    for match in re.finditer(r"(?:[^\n]*\S[^\n]*(?:\n|$))+", text):
        yield match.start(), match.group()


def undocumented(tree, name):
    text, code = tree.text(name), blank_bodies(tree.code(name))
    above = ""
    for start, block in blocks(text):
        comment = 0 if BANNER.fullmatch(above) else block.find("/*")
        above = block
        for match in PROTOTYPE.finditer(code[start:start + len(block)]):
            if match.group(1) in NOT_NAMES:
                continue
            line_end = block.find("\n", match.end())
            behind = "/*" in block[match.start():line_end]
            if not behind and not 0 <= comment <= match.start():
                yield text.count("\n", 0, start + match.start(1)) + 1, match.group(1)


def check(tree):
    found = []
    for name in tree.files(".h", below=("service/", "confine/")):
        stem = name.rsplit("/", 1)[1].removesuffix(".h")
        if not tree.text(name).startswith(f"/* {stem}: "):
            found.append(f"{name}:1: must begin with /* {stem}: what it is for")
        found += [f"{name}:{line}: {what} has no comment" for line, what in undocumented(tree, name)]
    return found


HEAD = "/* a: something. */\n#ifndef A\n#define A\n#define A_DO(x) \\\n    do_it(x)\n\n"
GOOD = {
    "service/base/a.h": HEAD + "struct a; /* opaque */\n\nstruct b {\n    int (*fn)(int); /* called */\n};\n\n"
    "/* Do it. */\nint gh_a(struct a *a,\n         int b) __attribute__((sentinel));\n\n"
    "/* Both are pure. */\nint gh_b(void);\nint gh_c(void);\n\n"
    "int gh_d(void); /* behind */\n\n/* ---- a.c: more of it ---- */\n\nint gh_f(void);\n\n/* Take. */\nstatic inline int gh_e(int *fd)\n{\n"
    "    int taken = steal(fd);\n\n    return taken;\n}\n#endif\n",
}
BAD = [
    ("no purpose", {"service/base/b.h": "int x;\n"}, "b.h:1: must begin"),
    ("a bare prototype", {"service/base/a.h": HEAD + "int gh_a(void);\n"}, "a.h:7: gh_a has no comment"),
    ("a comment too far above", {"service/base/a.h": HEAD + "/* Do. */\n\nint gh_a(void);\n"},
     "a.h:9: gh_a"),
    ("a banner that says nothing", {"service/base/a.h": HEAD + "/* ---- a.c ---- */\n\nint gh_a(void);\n"},
     "a.h:9: gh_a"),
    ("the second group below a banner",
     {"service/base/a.h": HEAD + "/* ---- a.c: x ---- */\n\nint gh_a(void);\n\nint gh_b(void);\n"},
     "a.h:11: gh_b"),
    ("the second of two groups",
     {"service/base/a.h": HEAD + "/* Do. */\nint gh_a(void);\n\nchar *gh_b(int x,\n           int y);\n"},
     "a.h:10: gh_b"),
    ("a comment only below", {"service/base/a.h": HEAD + "int gh_a(void);\n/* Said late. */\n"},
     "a.h:7: gh_a"),
    ("an attribute first", {"service/base/a.h": HEAD + "MUST_USE enum code gh_z(int x);\n"}, "gh_z"),
]
