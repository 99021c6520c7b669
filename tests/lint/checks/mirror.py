"""Each source file is exercised: tests/unit/<folder>/ has test_<file>.c, or its tests or a fuzz
target call a function that the file exports. The edges (api, main) are tested from outside."""
import re

# Folder -> the black-box suite that exercises it beside any unit test.
BLACK_BOX = {"api": "tests/api/", "cli": "tests/api/", "": "tests/api/"}
DEFINED = re.compile(r"^(?!static\b)(?:[A-Za-z_][\w\s*]*?)\b(\w+)\([^;{]*?\)\s*\n\{", re.M)
A_TEST = re.compile(r"\bSTART_TEST\(\w+\)|\bLLVMFuzzerTestOneInput\(|\bdef test_\w+\(|\bdef \w+_test\(")


def tests_text(tree, module):
    names = tree.files(".c", below=(f"tests/unit/{module}/", "tests/fuzz/"))
    if module in BLACK_BOX:
        names += tree.files(".py", below=(BLACK_BOX[module],))
    texts = [tree.text(n) for n in names]
    return "\n".join(t for t in texts if A_TEST.search(t))


def is_exercised(tree, name, module, text):
    stem = name.rsplit("/", 1)[1].removesuffix(".c")
    if module in BLACK_BOX and any(A_TEST.search(tree.text(n))
                                   for n in tree.files(".py", below=(BLACK_BOX[module],))):
        return True
    own = f"tests/unit/{module}/test_{stem}.c"
    if tree.exists(own):
        return bool(A_TEST.search(tree.text(own)))
    return any(re.search(rf"\b{f}\(", text) for f in DEFINED.findall(tree.code(name)))


def check(tree):
    found, texts = [], {}
    for name in tree.files(".c", below=("service/",)):
        parts = name.split("/")
        module = parts[1] if len(parts) > 2 else ""
        text = texts.setdefault(module, tests_text(tree, module))
        if not is_exercised(tree, name, module, text):
            found.append(f"{name}: no test calls it (tests/unit/{module}/test_{parts[-1]})")
    return found


TEST = "START_TEST(works)\n{\n    ck_assert(gate_b(1));\n}\nEND_TEST\n"
GOOD = {
    "service/gate/a.c": "int gate_a(int x)\n{\n    return x;\n}\n",
    "service/gate/b.c": "static int own(void)\n{\n    return 1;\n}\n\nbool gate_b(int x,\n            int y)\n{\n}\n",
    "tests/unit/gate/test_a.c": TEST,
    "service/api/r.c": "int api_r(void)\n{\n}\n",
    "tests/api/test_r.py": "class R:\n    def test_it(self):\n        pass\n",
}
BAD = [
    ("nobody calls it", {"service/gate/c.c": "int gate_c(void)\n{\n}\n"}, "gate/c.c: no test"),
    ("an empty test file", {"service/gate/c.c": "int gate_c(void)\n{\n}\n",
                            "tests/unit/gate/test_c.c": "int main(void)\n{\n}\n"}, "gate/c.c: no test"),
    ("a test of another folder", {"service/text/c.c": "int gate_b(void)\n{\n}\n"}, "text/c.c: no test"),
    ("an edge without its suite", {"tests/api/test_r.py": "pass\n"}, "api/r.c: no test"),
]
