#!/usr/bin/python3
"""docs/s3.md tells the truth: its table of served operations names exactly what the router has."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def routed():
    """{"GET bucket?cors", ...} of src/s3/router.cc."""
    text = (ROOT / "src/s3/router.cc").read_text()
    found = re.findall(r'Operation\{Scope::(\w+),\s*"(\w+)",\s*"([^"]*)"', text)
    return {f"{method} {scope}" + (f"?{selector}" if selector else "") for scope, method, selector in found}


def documented():
    text = (ROOT / "docs/s3.md").read_text()
    served = text[text.index("## Served"):text.index("## Refused on purpose")]
    requests = set()
    for row in re.findall(r"^\| (.+) \|$", served, re.M):
        cells = [cell.strip() for cell in row.split(" | ")]
        if len(cells) < 2 or cells[0] in ("operation", "---"):
            continue
        requests.update(re.findall(r"`([A-Z]+ \w+(?:\?[\w-]+)?)`", cells[1]))
    return requests


class Table(unittest.TestCase):
    def test_the_table_and_the_router_have_the_same_operations(self):
        self.assertGreater(len(routed()), 40, "the router's table was not found")
        self.assertEqual(sorted(routed() - documented()), [], "served, but not in docs/s3.md")
        self.assertEqual(sorted(documented() - routed()), [], "in docs/s3.md, but not served")


if __name__ == "__main__":
    unittest.main()
