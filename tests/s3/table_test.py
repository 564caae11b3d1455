#!/usr/bin/python3
"""docs/s3.md is complete: its table of served operations names exactly those of the router."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def routed():
    """{"GET bucket?cors", ...} of src/s3_http/routing/router.cc."""
    text = (ROOT / "src/s3_http/routing/router.cc").read_text()
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

    def test_signatures_of_version_2_cover_what_is_asked_for(self):
        """Every query argument that changes an operation is covered by a signature of version 2, or only formats the
        answer."""
        shaping = {"list-type", "prefix", "delimiter", "marker", "max-keys", "encoding-type", "start-after", "fetch-owner",
                   "continuation-token", "key-marker", "version-id-marker", "upload-id-marker", "max-uploads", "max-parts",
                   "part-number-marker", "allow-unordered", "metadata", "max-buckets", "bucket-region", "max-directory-buckets"}
        text = (ROOT / "src/auth/version2.cc").read_text()
        listed = re.search(r"covered_arguments =((?:\s*\"[^\"]*\")+);", text).group(1)
        covered = set("".join(re.findall(r'"([^"]*)"', listed)).split())
        # S3 Control names its subject in the path.
        acted = {request.split("?")[1] for request in routed() if "?" in request and " control?" not in request}
        asks = r'(?:query\.(?:has|get|get_or_empty|number)|in_query)\(\s*"([^"]+)"'
        for room in ("s3", "s3_http"):
            for file in (ROOT / "src" / room).rglob("*.cc"):
                if not file.stem.endswith("_test"):
                    acted.update(re.findall(asks, file.read_text()))
        acted.update(re.findall(r'"(response-[a-z-]+)"', (ROOT / "src/s3_http/headers.cc").read_text()))
        self.assertGreater(len(acted), 50)
        signatures_own = {"Signature", "X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Signature"}
        self.assertEqual(sorted(acted - covered - shaping - signatures_own), [], "acted upon, not covered, may change more than a shape")

    def test_every_operation_asks_who_may(self):
        """The router authorizes operations that name their action. The others authorize in their own functions:
        check that, before adding one here (src/s3/access/authorize.h)."""
        asks_itself = {"serve_list_buckets", "serve_list_versions", "serve_list_objects_v1", "serve_list_objects_v2",
                       "serve_create_bucket", "serve_head_bucket", "serve_delete_bucket", "serve_delete_objects",
                       "serve_post_object", "serve_preflight", "serve_create_session"}
        text = (ROOT / "src/s3_http/routing/router.cc").read_text()
        bare = re.findall(r"Operation\{Scope::(?:service|bucket|control)[^{}&]*?(serve_\w+)\s*\}", text)
        self.assertGreater(len(bare), 5, "the router's table was not found")
        self.assertEqual(sorted(set(bare) - asks_itself), [], "nobody is asked whether the caller may")


class Pages(unittest.TestCase):
    def page(self, name):
        return (ROOT / "docs" / name).read_text()

    def test_every_call_about_accounts_and_quotas_has_a_row(self):
        calls = re.findall(r'\{"([a-z-]+)",\s*serve_', (ROOT / "src/iam/admin.cc").read_text())
        self.assertGreater(len(calls), 10, "the table of calls was not found")
        rows = "\n".join(re.findall(r"^\| (`[a-z].*?) \|", self.page("iam.md") + self.page("quotas.md"), re.M))
        self.assertEqual([call for call in calls if f"`{call}`" not in rows], [])

    def test_terraform_is_told_of_every_service_that_it_asks_for_buckets_and_users(self):
        block = re.search(r"endpoints \{(.*?)\}", self.page("iam.md"), re.S)[1]
        self.assertLessEqual({"iam", "s3", "s3control", "sts"}, set(re.findall(r"^\s*(\w+)\s*=", block, re.M)))


if __name__ == "__main__":
    unittest.main()
