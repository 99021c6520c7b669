"""Run one check of the house rules: run.py NAME [--root DIR] [--build DIR]

A check is a file in checks/ with
  check(tree)  -> list of findings, "file:line: what is wrong"
  GOOD         -> {file: text}, a small tree without findings
  BAD          -> [(what, {file: text}, part of the finding)], trees laid over GOOD that must be refused
First the check is tried on GOOD and BAD, then on the real tree.
"""
import argparse
import importlib
import sys
import tempfile

from tree import Tree


def self_test(module):
    """What is wrong with the check itself."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        found = module.check(Tree.lay(folder, module.GOOD))
        if found:
            wrong.append(f"the good tree is refused: {found}")
    for what, files, part in module.BAD:
        with tempfile.TemporaryDirectory() as folder:
            found = module.check(Tree.lay(folder, {**module.GOOD, **files}))
            if not any(part in line for line in found):
                wrong.append(f"not noticed: {what} (found: {found})")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--root", default=".")
    parser.add_argument("--build", default="build/dev")
    args = parser.parse_args()
    module = importlib.import_module(f"checks.{args.name}")

    wrong = self_test(module)
    for line in wrong:
        print(f"lint.{args.name} is broken: {line}")
    found = module.check(Tree(args.root, args.build))
    for line in found:
        print(line)
    print(f"lint.{args.name}: {len(found)} findings; {len(module.BAD)} bad trees "
          f"{'refused as they must be' if not wrong else 'tried'}")
    return 1 if wrong or found else 0


if __name__ == "__main__":
    sys.exit(main())
