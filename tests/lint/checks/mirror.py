"""Each source file is exercised: tests/unit/<folder>/ has test_<file>.c, or the folder's tests or a
fuzz target reach what the file exports, directly or through other files of the folder. The edges
(core, api, cli, main) are tested from outside as well."""
import re

# Folder -> the black-box suite that exercises it beside any unit test.
BLACK_BOX = {"api": "tests/api/", "core": "tests/api/", "cli": "tests/api/", "": "tests/api/"}
DEFINED = re.compile(r"^(?!static\b)(?:[A-Za-z_][\w\s*]*?)\b(\w+)\([^;{]*?\)\s*\n\{", re.M)
CONSTANT = re.compile(r"^(?!static\b|typedef\b)const [\w\s*]*?\b(\w+)(?:\[\w*\])?\s*=", re.M)
A_TEST = re.compile(r"\bSTART_TEST\(\w+\)|\bLLVMFuzzerTestOneInput\(|\bdef test_\w+\(|\bdef \w+_test\(")


def tests_text(tree, module):
    names = tree.files(".c", ".py", below=(f"tests/unit/{module}/", "tests/fuzz/"))
    if module in BLACK_BOX:
        names += tree.files(".py", below=(BLACK_BOX[module],))
    texts = [tree.text(n) for n in names]
    return "\n".join(t for t in texts if A_TEST.search(t))


def has_black_box(tree, module):
    return module in BLACK_BOX and any(A_TEST.search(tree.text(n))
                                       for n in tree.files(".py", below=(BLACK_BOX[module],)))


def has_own_test(tree, name, module):
    own = f"tests/unit/{module}/test_{name.rsplit('/', 1)[1]}"
    return tree.exists(own) and A_TEST.search(tree.text(own))


def unreached(tree, module, names):
    """Those of `names` that the tests do not reach."""
    code = {n: tree.code(n) for n in names}
    exports = {n: set(DEFINED.findall(code[n]) + CONSTANT.findall(code[n])) for n in names}
    words = set(re.findall(r"\w+", tests_text(tree, module)))
    left = set(names)
    while True:
        reached = {n for n in left if has_own_test(tree, n, module) or exports[n] & words}
        if not reached:
            return left
        left -= reached
        for name in reached:
            words.update(re.findall(r"\w+", code[name]))


def check(tree):
    modules = {}
    for name in tree.files(".c", below=("service/",)):
        parts = name.split("/")
        modules.setdefault(parts[1] if len(parts) > 2 else "", []).append(name)
    return [f"{name}: no test reaches it (tests/unit/{module}/)"
            for module, names in sorted(modules.items()) if not has_black_box(tree, module)
            for name in sorted(unreached(tree, module, names))]


TEST = "START_TEST(works)\n{\n    ck_assert(gate_b(1));\n}\nEND_TEST\n"
GOOD = {
    "service/gate/a.c": "int gate_a(int x)\n{\n    return x;\n}\n",
    "service/gate/b.c": "static int own(void)\n{\n    return 1;\n}\n\nbool gate_b(int x,\n            int y)\n{\n}\n",
    "tests/unit/gate/test_a.c": TEST,
    "service/gate/inner.c": "const struct row gate_rows[] = {1};\n",
    "service/gate/outer.c": "int gate_outer(void)\n{\n    return gate_rows[0];\n}\n",
    "tests/unit/gate/test_all.c": TEST.replace("gate_b(1)", "gate_outer()"),
    "service/api/r.c": "int api_r(void)\n{\n}\n",
    "tests/api/test_r.py": "class R:\n    def test_it(self):\n        pass\n",
}
BAD = [
    ("nobody calls it", {"service/gate/c.c": "int gate_c(void)\n{\n}\n"}, "gate/c.c: no test reaches"),
    ("two that call only each other",
     {"service/gate/c.c": "int gate_c(void)\n{\n    return gate_d();\n}\n",
      "service/gate/d.c": "int gate_d(void)\n{\n    return gate_c();\n}\n"}, "gate/d.c: no test reaches"),
    ("an empty test file", {"service/gate/c.c": "int gate_c(void)\n{\n}\n",
                            "tests/unit/gate/test_c.c": "int main(void)\n{\n}\n"}, "gate/c.c: no test reaches"),
    ("a test of another folder", {"service/text/c.c": "int gate_b(void)\n{\n}\n"}, "text/c.c: no test reaches"),
    ("an edge without its suite", {"tests/api/test_r.py": "pass\n"}, "api/r.c: no test reaches"),
]
