#!/usr/bin/env python3
"""Runs the black-box tests: python3 tests/api/run.py [--bin PATH] [-k PATTERN] [-j N]

Every test class of tests/api/test_*.py runs in a process of its own, N at a time. What such a
process started is in its process group and ends with it. The last line counts the outcomes.
"""

import argparse
import concurrent.futures
import fnmatch
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Recorder(unittest.TestResult):
    """Writes one line a test as soon as it is over, so that a crash loses only what was running."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.begun = time.monotonic()

    def startTest(self, test):
        super().startTest(test)
        self.begun = time.monotonic()
        self.tell({"began": test.id()})

    def tell(self, line):
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    def record(self, test, outcome, text=""):
        seconds = time.monotonic() - self.begun
        title = (test.shortDescription() or "") if isinstance(test, unittest.TestCase) else ""
        self.tell({"id": test.id(), "outcome": outcome, "text": text, "title": title, "seconds": seconds})

    def addSuccess(self, test):
        self.record(test, "passed")

    def addSkip(self, test, reason):
        self.record(test, "skipped", reason)

    def addFailure(self, test, err):
        self.record(test, "failed", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.record(test, "failed", self._exc_info_to_string(err, test))

    def addExpectedFailure(self, test, err):
        self.record(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.record(test, "failed", "was expected to fail, and passed")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.record(subtest, "failed", self._exc_info_to_string(err, test))


def wanted(test_id, patterns):
    return not patterns or any(p in test_id or fnmatch.fnmatch(test_id, p) for p in patterns)


def load_class(module, name, patterns):
    loaded = unittest.defaultTestLoader.loadTestsFromTestCase(getattr(importlib.import_module(module), name))
    return unittest.TestSuite(t for t in loaded if wanted(t.id(), patterns))


def run_worker(module, name, patterns, path):
    with open(path, "w") as out:
        load_class(module, name, patterns).run(Recorder(out))
        out.write(json.dumps({"complete": True}) + "\n")


def find_classes(patterns):
    """-> ([(module, class, count)], [broken imports as failed outcomes])"""
    found, broken = [], []
    for file in sorted(os.listdir(HERE)):
        if not (file.startswith("test_") and file.endswith(".py")):
            continue
        module = file[:-3]
        try:
            names = vars(importlib.import_module(module)).items()
        except BaseException:
            if wanted(module, patterns) or patterns:
                broken.append({"id": module, "outcome": "failed", "text": traceback.format_exc(), "seconds": 0})
            continue
        for name, value in names:
            if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == module:
                count = load_class(module, name, patterns).countTestCases()
                if count:
                    found.append((module, name, count))
    return found, broken


def end_group(process):
    """Whatever the worker started and did not stop; the group is the worker's own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def read_outcomes(path):
    lines = []
    try:
        with open(path) as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]
    except (OSError, ValueError):
        pass
    outcomes = [line for line in lines if "outcome" in line]
    running = [line["began"] for line in lines if "began" in line]
    return outcomes, running[-1] if running else None, any("complete" in line for line in lines)


def run_class(module, name, args):
    """One class in a process of its own -> its outcomes."""
    temp = tempfile.mkdtemp(prefix="gh-run-")
    path = os.path.join(temp, "outcomes")
    command = [sys.executable, os.path.abspath(__file__), "--worker", module, name, path]
    for pattern in args.k or []:
        command += ["-k", pattern]
    problem = None
    with open(os.path.join(temp, "output"), "w+") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env={**os.environ, "TMPDIR": temp}, start_new_session=True)
        try:
            code = process.wait(args.timeout)
            problem = None if code == 0 else f"its process ended with {code}"
        except subprocess.TimeoutExpired:
            problem = f"given up after {args.timeout} s"
        finally:
            end_group(process)
        output.seek(0)
        text = output.read()
    outcomes, running, complete = read_outcomes(path)
    shutil.rmtree(temp, ignore_errors=True)
    if problem or not complete:
        outcomes.append({"id": running or f"{module}.{name}", "outcome": "failed", "seconds": 0,
                         "text": f"{problem or 'its process stopped early'}\n{text[-8000:]}"})
    return outcomes


def report(results):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    seconds = {}
    for one in results:
        counts[one["outcome"]] += 1
        module = one["id"].split(".")[0].split(" ")[0]
        seconds[module] = seconds.get(module, 0) + one["seconds"]
        if one["outcome"] == "skipped":
            print(f"SKIPPED {one['id']}: {one['text']}")
    for one in results:
        if one["outcome"] == "failed":
            print(f"\nFAILED {one['id']}\n{one.get('title', '')}\n{one['text'].rstrip()}")
    print()
    for module, spent in sorted(seconds.items()):
        print(f"{spent:8.1f} s  {module}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    return counts


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=None, help="the gatehouse program (default build/dev/gatehouse)")
    parser.add_argument("-k", action="append", help="only tests whose id has this in it (may repeat)")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 2, help="classes at a time")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a class may take")
    parser.add_argument("-v", action="store_true", help="one line a test")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse_args()
    sys.path.insert(0, HERE)
    if args.worker:
        run_worker(args.worker[0], args.worker[1], args.k, args.worker[2])
        return 0
    program = args.bin or os.environ.get("GATEHOUSE_BIN") or os.path.join(ROOT, "build", "dev", "gatehouse")
    os.environ["GATEHOUSE_BIN"] = os.path.abspath(program)
    if not os.access(program, os.X_OK):
        print(f"there is no program at {program}: build it first, or name it with --bin")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    classes, results = find_classes(args.k)
    with concurrent.futures.ThreadPoolExecutor(max(1, args.j)) as pool:
        waiting = [pool.submit(run_class, module, name, args) for module, name, _ in classes]
        try:
            for done in concurrent.futures.as_completed(waiting):
                results += done.result()
                if args.v:
                    for one in done.result():
                        print(f"{one['outcome']:8} {one['seconds']:6.1f} s  {one['id']}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    counts = report(sorted(results, key=lambda one: one["id"]))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
