#!/usr/bin/env python3
"""Which test covers which case: python3 tests/api/cases.py [--write]

S1-S105 are the scenarios of behaviour 8, B001-B160 the field cases (not every number is one), E01-E25 those
of the approvals page, F01-F31 those of the HTTP surface. A test names its cases at the start of its docstring
("S28: ...", "B021, B046: ..."), a unit test in a comment. What no test names has its line in cases-why.txt.
--write makes tests/cases.md; without it, what is wrong is told, and the exit code is 1 if anything is.
"""

import ast
import os
import re
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
WHY = os.path.join(TESTS, "cases-why.txt")
TABLE = os.path.join(TESTS, "cases.md")

GAPS = "2 11 16 18 32 39 42 47 49 54 55 57 61 63 73 77 80 90 92 94 100 109 117 121 124 135 139 141 154 157"
NO_CASES = {f"B{int(n):03}" for n in GAPS.split()}
ID = re.compile(r"\b(S[1-9]\d{0,2}|B\d{3}|[EF]\d{2})\b")


def read(path):
    """The file's text, or "" where there is none."""
    if not os.path.exists(path):
        return ""
    with open(path) as f:
        return f.read()


def all_ids():
    ids = [f"S{i}" for i in range(1, 106)]
    ids += [i for i in (f"B{i:03}" for i in range(1, 161)) if i not in NO_CASES]
    return ids + [f"E{i:02}" for i in range(1, 26)] + [f"F{i:02}" for i in range(1, 32)]


def named(text):
    """Ids in the part of a docstring before its colon."""
    return ID.findall(text.split(": ")[0]) if ": " in text else []


def scenarios(text):
    """Ids in a comment of a unit test: B numbers, and "Scenarios 20 to 26, 40 and 41"."""
    found = re.findall(r"\bB\d{3}\b", text)
    for words in re.findall(r"\bScenarios? ([\d ,toand]+)", text):
        words = re.sub(r"(\d+) to (\d+)",
                       lambda m: " ".join(str(i) for i in range(int(m[1]), int(m[2]) + 1)), words)
        found += ["S" + n for n in re.findall(r"\d+", words)]
    return found


def of_python(path):
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.ClassDef):
            shared = named(ast.get_docstring(node) or "")
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name.startswith("test"):
                    for id in set(named(ast.get_docstring(item) or "") + shared):
                        yield id, f"{node.name}.{item.name}"


def of_c(path):
    text = read(path)
    for comment in re.finditer(r"/\*.*?\*/", text, re.S):
        found = scenarios(comment.group())
        test = re.search(r"START_TEST\((\w+)\)", text[comment.end():])
        for id in set(found):
            yield id, test.group(1) if test else "the whole file"


def tests_by_id():
    found = {}
    for folder, _, names in os.walk(TESTS):
        if "node_modules" in folder:
            continue
        for name in names:
            path = os.path.join(folder, name)
            rows = ()
            if folder.endswith("api") and name.startswith("test_") and name.endswith(".py"):
                rows = of_python(path)
            elif "/unit/" in folder + "/" and name.endswith(".c"):
                rows = of_c(path)
            for id, test in rows:
                found.setdefault(id, set()).add((os.path.relpath(path, TESTS), test))
    return found


def spread(first, last, ids):
    """first..last of the ids that exist."""
    if last is None:
        return [first]
    low, high = int(first[1:]), int(last[1:])
    return [i for i in ids if i[0] == first[0] and low <= int(i[1:]) <= high]


def read_why(ids):
    """-> reasons by id, tests by id, faults"""
    reasons, tests, faults = {}, {}, []
    for number, line in enumerate(read(WHY).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\w+)(?:-(\w+))?(?:: (.+)| = ([\w./-]+): (.+))", line)
        which = spread(match[1], match[2], ids) if match else []
        if not which or any(i not in ids for i in which):
            faults.append(f"cases-why.txt:{number}: no such line or id: {line}")
            continue
        for id in which:
            if match[3]:
                reasons.setdefault(id, []).append(match[3])
                continue
            path = os.path.join(ROOT, match[4])
            if match[5] not in read(path):
                faults.append(f"cases-why.txt:{number}: {match[4]} has no {match[5]!r}")
            tests.setdefault(id, set()).add((os.path.relpath(path, TESTS), match[5]))
    return reasons, tests, faults


def render(ids, found, reasons):
    lines = ["# Cases and their tests", "",
             "Made by `python3 tests/api/cases.py --write`; do not edit. Scenarios S, field cases B, cases of the",
             "page E, cases of the HTTP surface F. The last column says why there is no test, or what is left out.",
             "", "| case | tests | not tested, and why |", "|---|---|---|"]
    for id in ids:
        files = {}
        for path, test in sorted(found.get(id, ())):
            files.setdefault(path, []).append(test)
        tests = "; ".join(f"{path}: {', '.join(names)}" for path, names in files.items())
        why = "; ".join(reasons.get(id, []))
        lines.append(f"| {id} | {tests.replace('|', ' ')} | {why.replace('|', ' ')} |")
    return "\n".join(lines) + "\n"


def look():
    """-> the table as it should be, and what is wrong"""
    ids = all_ids()
    found = tests_by_id()
    faults = [f"{id}: named by {sorted(found[id])[0]}, but there is no such case"
              for id in sorted(set(found) - set(ids))]
    reasons, more, wrong = read_why(ids)
    for id, tests in more.items():
        found.setdefault(id, set()).update(tests)
    faults += wrong
    faults += [f"{id}: no test names it, and cases-why.txt gives no reason" for id in ids
               if id not in found and id not in reasons]
    return render(ids, found, reasons), faults


def main():
    table, faults = look()
    if "--write" in sys.argv[1:]:
        with open(TABLE, "w") as f:
            f.write(table)
    elif read(TABLE) != table:
        faults.append("tests/cases.md is stale: run python3 tests/api/cases.py --write")
    print("\n".join(faults) or "every case has a test or a reason")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
