"""Every scenario and field case has its test or a written reason."""

import unittest

import cases


class Cases(unittest.TestCase):
    def test_every_case(self):
        """Each id is named by a test or has its reason, and no test names one that is none"""
        self.assertEqual(cases.look()[1], [])

    def test_table(self):
        """tests/cases.md is what cases.py makes now"""
        is_fresh = cases.read(cases.TABLE) == cases.look()[0]
        self.assertTrue(is_fresh, "tests/cases.md is stale: run python3 tests/api/cases.py --write")


if __name__ == "__main__":
    unittest.main()
