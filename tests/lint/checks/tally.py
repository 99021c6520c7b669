"""The counting of ./dev test: a crash, a missing runner or an empty run never looks like success."""
import importlib.util
import os
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "support" / "tally.py"

XML = """<testsuite>
<testcase name="unit.a" status="run"><system-out>100%: Checks: 7, Failures: 0, Errors: 0
</system-out></testcase>
<testcase name="fuzz.a" status="run"><system-out>6 inputs replayed</system-out></testcase>
<testcase name="unit.b" status="fail"><failure/><system-out>50%: Checks: 4, Failures: 1, Errors: 1
</system-out></testcase>
<testcase name="unit.crashed" status="fail"><failure/><system-out></system-out></testcase>
<testcase name="unit.off" status="notrun"><skipped/></testcase>
</testsuite>"""

# kind, exit code, log text, JUnit text -> passed, failed, skipped
CASES = [
    ("build", 0, "", None, (0, 0, 0)),
    ("build", 1, "", None, (0, 1, 0)),
    ("ctest", 8, "", XML, (10, 3, 1)),
    ("ctest", 8, "", "<testsuite></testsuite>", (0, 1, 0)),
    ("ctest", 0, "", None, (0, 1, 0)),
    ("ctest", 0, "", "<testsuite", (0, 1, 0)),
    ("plain", 0, "1 passed, 0 failed\nx\n12 passed, 0 failed, 3 skipped\n", None, (12, 0, 3)),
    ("plain", 1, "12 passed, 2 failed\n", None, (12, 2, 0)),
    ("plain", 1, "12 passed, 0 failed\n", None, (12, 1, 0)),
    ("plain", 0, "0 passed, 0 failed\n", None, (0, 1, 0)),
    ("plain", 2, "can't open file\n", None, (0, 1, 0)),
    ("plain", 0, "all 12 passed, 0 failed\n", None, (0, 1, 0)),
    ("node", 0, "# tests 3\n# pass 2\n# fail 0\n# cancelled 0\n# skipped 1\n# todo 0\n", None, (2, 0, 1)),
    ("node", 1, "# pass 2\n# fail 1\n# cancelled 1\n# skipped 0\n", None, (2, 2, 0)),
    ("node", 0, "# tests 0\n# pass 0\n# fail 0\n", None, (0, 1, 0)),
]


def check(tree):
    path = tree.root / "tally.py" if tree.exists("tally.py") else SCRIPT
    spec = importlib.util.spec_from_file_location("tally_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = []
    for kind, code, text, xml, want in CASES:
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "stage.log")
            Path(log).write_text(text)
            if xml is not None:
                Path(log + ".xml").write_text(xml)
            got = module.tally(kind, code, log)
        if got != want:
            found.append(f"tally.py: {kind}, exit {code}, {text!r}: {got}, not {want}")
    return found


GOOD = {}
BAD = [("a counter that believes everything", {"tally.py": "def tally(*_):\n    return 1, 0, 0\n"},
        "tally.py: build")]
