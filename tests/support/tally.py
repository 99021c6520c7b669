"""Count the tests of one stage: prints "passed failed skipped".

usage: tally.py KIND EXIT-CODE LOG

KIND says how to read LOG:
  build  nothing is counted; a failure counts as one
  ctest  LOG.xml is ctest's JUnit file; a check program counts its checks, anything else is one test
  plain  the last line "N passed, N failed[, N skipped]"
  node   the summary of node's test runner
A stage that failed without a counted failure, or that counted nothing, is one failure: a missing
or crashed runner must never look like success.
"""
import re
import sys
import xml.etree.ElementTree as ET

CHECKS = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)
NODE = re.compile(r"^\S+ (pass|fail|cancelled|skipped|todo) (\d+)\s*$", re.M)


def ctest_case(case):
    """Counts of one ctest entry."""
    output = case.findtext("system-out") or ""
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return 0, 0, 1
    rows = [tuple(map(int, m)) for m in CHECKS.findall(output)]
    failed = sum(f + e for _, f, e in rows)
    passed = sum(n for n, _, _ in rows) - failed
    if case.find("failure") is not None and failed == 0:
        failed = 1
    if not rows and failed == 0:
        passed = 1
    return passed, failed, 0


def count_ctest(log):
    root = ET.parse(log + ".xml").getroot()
    totals = [ctest_case(case) for case in root.iter("testcase")]
    return tuple(map(sum, zip(*totals))) if totals else (0, 0, 0)


def count_plain(log):
    rows = PLAIN.findall(open(log, errors="replace").read())
    return tuple(int(n or 0) for n in rows[-1]) if rows else (0, 0, 0)


def count_node(log):
    counts = {name: int(n) for name, n in NODE.findall(open(log, errors="replace").read())}
    return (counts.get("pass", 0), counts.get("fail", 0) + counts.get("cancelled", 0),
            counts.get("skipped", 0) + counts.get("todo", 0))


COUNTERS = {"ctest": count_ctest, "plain": count_plain, "node": count_node}


def tally(kind, code, log):
    if kind == "build":
        return 0, int(code != 0), 0
    try:
        passed, failed, skipped = COUNTERS[kind](log)
    except (OSError, ET.ParseError):
        passed, failed, skipped = 0, 0, 0
    if failed == 0 and (code != 0 or passed == 0):
        failed = 1
    return passed, failed, skipped


if __name__ == "__main__":
    print(*tally(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
