#!/usr/bin/env python3
"""Tests of the house itself: who includes whom, and what the sources must not contain.

Run from the repository root: house_test.py [ROOT]. Exits non-zero and names file and line for each finding.
"""
import pathlib
import re
import sys

# Rooms from the top down. A file may include its own room and rooms further down.
ROOMS = ["cli", "client", "server", "admin", "native", "http", "iam", "s3", "auth", "rdma", "store", "cache", "fabric", "memory", "base"]
# The client is not above the server: it shares these rooms with it and no other.
CLIENT_MAY_USE = {"client", "auth", "rdma", "fabric", "memory", "base"}
CLIENT_MAY_INCLUDE = re.compile(r"native/wire(\.h$|/)")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
ANGLE = re.compile(r"^\s*#\s*include\s+<([^>]+)>")
LINES_MAX = 800
COLUMNS_MAX = 120

# Paths as texts cite them: with a file's ending anywhere, without one between backticks.
PLACES = ["src", "tests", "docs", "bench", "tools", "fuzz", "cmake", "include", "deploy", "clients", *ROOMS]
CITED_FILE = re.compile(r"(?<![\w./~$}<-])((?:" + "|".join(PLACES) + r")/[\w./-]*\.(?:cc|h|py|md|json|sh|txt|ya?ml|cmake))\b")
CITED_PLACE = re.compile(r"`((?:" + "|".join(PLACES) + r")/[\w./-]+)`")
# Documents that its builders have and a reader of the repository has not.
ELSEWHERE = re.compile(r"\b(DESIGN|PROTOCOLS|STYLE)\b(?!\.)")


def rank(room):
    return ROOMS.index(room)


def check_include(path, room, target):
    """The finding for one include, or None."""
    parts = target.split("/")
    if parts[0] == "verbena":
        return None if room in ("client", "cli") else "only client/ and cli/ use the public headers"
    if parts[0] not in ROOMS:
        return f"'{target}' is not spelled from src/ (room/file.h)"
    is_test = path.name.endswith("_test.cc") or "test_" in path.name
    if is_test:
        return None  # a test may set up more than its room may use
    if room == "client" and parts[0] not in CLIENT_MAY_USE and not CLIENT_MAY_INCLUDE.match(target):
        return f"client/ may not use {parts[0]}/"
    if rank(parts[0]) < rank(room):
        return f"{room}/ includes {target}: arrows point down only"
    if room == "s3" and parts[0] == "fabric":
        return "s3/ knows no fabric"
    return None


def exists(root, path, cited):
    """Whether a text at `path` may cite this: from the root, from src/ or include/, or from its own folder; without an
    ending, too."""
    for folder in (root, root / "src", root / "include", path.parent):
        place = folder / cited.rstrip("/.")
        if place.exists() or (place.parent.is_dir() and list(place.parent.glob(place.name + ".*"))):
            return True
    return False


def check_citations(root, path, number, text):
    """What a line of a document or a comment cites must be there for its reader."""
    findings = []
    for cited in CITED_FILE.findall(text) + CITED_PLACE.findall(text):
        if not exists(root, path, cited):
            findings.append((path, number, f"cites {cited}, which is not in the repository"))
    if ELSEWHERE.search(text):
        findings.append((path, number, f"cites {ELSEWHERE.search(text).group(1)}, which is not in the repository"))
    return findings


def check_documents(root):
    findings = []
    for path in sorted(root.rglob("*.md")):
        if path.relative_to(root).parts[0].startswith((".", "build")) or "node_modules" in path.parts:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            findings += check_citations(root, path, number, line)
    return findings


def check_scripts(root):
    findings = []
    for path in [*sorted((root / "tests").rglob("*.py")), *sorted((root / "bench").rglob("*.py"))]:
        if path.name == "house_test.py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "#" in line or '"""' in line:
                findings += check_citations(root, path, number, line)
    return findings


def check_source(root, path, text=None):
    findings = []
    room = path.relative_to(root / "src").parts[0]
    text = path.read_text() if text is None else text
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            finding = check_include(path, room, match.group(1))
            if finding:
                findings.append((path, number, finding))
        # GCC 12 frees captures twice when a capturing lambda stands inside a co_await expression.
        if re.search(r"co_await\b[^;]*\[[^\]\[]*[&=\w][^\]\[]*\]\s*(\([^)]*\))?\s*(mutable\s*)?(->[^{]*)?\{", line):
            findings.append((path, number, "capturing lambda inside a co_await expression (GCC 12 double free)"))
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            findings.append((path, number, "unfinished business: finish it or write an issue"))
        if len(line) > COLUMNS_MAX:
            findings.append((path, number, f"{len(line)} columns, {COLUMNS_MAX} at most"))
        if "//" in line and not match:
            findings += check_citations(root, path, number, line.split("//", 1)[1])
        if line.lstrip().startswith("//"):
            continue  # what follows is about code
        # Likewise a braced aggregate among the arguments: name it first.
        if re.search(r"co_await\b.*[(,] *\{", line) and "[" not in line.split("{")[0]:
            findings.append((path, number, "braced aggregate inside a co_await expression (GCC 12 double free)"))
    if path.suffix == ".h" and "#pragma once" not in text:
        findings.append((path, 1, "header without #pragma once"))
    if len(lines) > LINES_MAX:
        findings.append((path, LINES_MAX, f"{len(lines)} lines: look for the second subject"))
    return findings


DEFINED = re.compile(r"(?:(?:static|inline|constexpr|const|thread_local|template <.*>)\s+)*"
                     r"(?:(?:struct|class|enum class|enum)\s+(\w+)\s*(?:final\s*)?[:{]|.*?[\s*&>](\w+)\s*(?:=|\{))")
FUNCTION = re.compile(r"(?:template <.*>\s*)?(?:(?:static|inline|constexpr)\s+)*[\w:<>,\s*&]+?[\s*&>](\w+)\(([^;]*?)\)\s*(?:noexcept\s*)?\{")


def parameter_types(text):
    """The types of a parameter list, without names and defaults: enough to tell overloads apart."""
    plain = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", text))
    return tuple(re.sub(r"\s+\w+\s*(=.*)?$", "", part.strip()) for part in plain.split(",")) if plain.strip() else ()


def unnamed_definitions(text):
    """What a source defines in its unnamed namespaces: (line, name or (name, parameter types))."""
    inside, lines = False, text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("namespace {"):
            inside = True
        elif line.startswith("}  // namespace"):
            inside = False
        elif inside and line and line[0] not in " }/#)" and not line.startswith(("using ", "namespace ")):
            function = FUNCTION.match(" ".join(part.strip() for part in lines[number - 1:number + 5]))
            if "(" in line.split("=")[0] and function:
                yield number, (function.group(1), parameter_types(function.group(2)))
            elif defined := DEFINED.match(line):
                yield number, defined.group(1) or defined.group(2)
                if "(" not in line and "{" not in line:  # `constexpr int one = 1, two = 2;`
                    yield from ((number, more) for more in re.findall(r",\s*(\w+)\s*=", line))


def check_unnamed_names(root):
    """Files of a room are compiled several at a time (cmake/rooms.cmake), so what they keep to themselves is named once in
    it; its tests likewise, by themselves."""
    findings, seen = [], {}
    for path in sorted((root / "src").rglob("*.cc")):
        folder, is_test = path.parent, path.name.endswith("_test.cc")
        while not (folder / "CMakeLists.txt").exists():
            folder = folder.parent
        for number, name in unnamed_definitions(path.read_text()):
            first = seen.setdefault((folder, is_test, name), path)
            if first != path:
                shown = name if isinstance(name, str) else name[0]
                findings.append((path, number, f"'{shown}' is in the unnamed namespace of {first.name}, too: rename one, or share it"))
    return findings


def check_public_headers(root):
    """include/ names no third-party type: standard headers and our own only."""
    findings = []
    for path in sorted((root / "include").rglob("*.h")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = ANGLE.match(line) or INCLUDE.match(line)
            if match and "/" in match.group(1) and not match.group(1).startswith("verbena/"):
                findings.append((path, number, f"public header includes {match.group(1)}"))
    return findings


def check_s3_codes(root):
    """S3 error codes as strings stand in s3/errors.cc only."""
    findings = []
    codes = set(re.findall(r'"([A-Z][A-Za-z0-9]{5,})"', (root / "src/s3/errors.cc").read_text()))
    codes &= {"NoSuchKey", "NoSuchBucket", "NoSuchUpload", "AccessDenied", "SlowDown", "InvalidRange", "PreconditionFailed",
              "SignatureDoesNotMatch", "InvalidAccessKeyId", "EntityTooSmall", "BadDigest", "InternalError"}
    pattern = re.compile(r'"(' + "|".join(sorted(codes)) + r')"') if codes else None
    for path in sorted((root / "src").rglob("*.cc")):
        room = path.relative_to(root / "src").parts[0]
        if pattern is None or path.name in ("errors.cc",) or path.name.endswith("_test.cc") or room in ("client", "cli"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if pattern.search(line):
                findings.append((path, number, "an S3 error code outside s3/errors.cc"))
    return findings


def check_rooms_have_readme(root):
    return [(folder, 1, "a room needs a README.md: what lives here, who may call it")
            for folder in sorted((root / "src").iterdir())
            if folder.is_dir() and any(folder.iterdir()) and not list(folder.glob("**/README.md"))]


def canary(root):
    """The checks must be able to fail: a file that breaks each rule is found out, in comments and in code."""
    bad = root / "src/base/bad.cc"
    for line in ("// TODO: later", "int x;  // FIXME", "// " + "x" * COLUMNS_MAX, "// see s3/nowhere.cc", "// see `s3/nowhere`",
                 "// as DESIGN section 3 says", '#include "s3/router.h"', "co_await f([&] { g(); });", "co_await f({1, 2});"):
        assert check_source(root, bad, line + "\n"), f"not found: {line}"
    for line in ("// see s3/errors.cc and `base/result.h`", "// to do it", "co_await f(named);"):
        assert not check_source(root, bad, line + "\n"), f"wrongly found: {line}"
    assert check_include(bad, "base", "s3/router.h"), "an include that points up was not found"
    assert check_include(bad, "s3", "fabric/fabric.h"), "s3 using fabric was not found"
    assert check_include(bad, "client", "store/store.h"), "client using the store was not found"
    twice = "namespace {\n\nconstexpr int most = 3;\nvoid look(const A& a, int b = 1) {\n}\n}  // namespace\n"
    assert [name for _, name in unnamed_definitions(twice)] == ["most", ("look", ("const A&", "int"))], "unnamed namespaces are not read"
    assert not check_include(bad, "s3", "store/store.h"), "an include that points down was refused"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    canary(root)
    findings = []
    sources = [p for p in sorted((root / "src").rglob("*")) if p.suffix in (".cc", ".h")]
    assert sources, "no sources found"
    for path in sources:
        findings += check_source(root, path)
    findings += check_public_headers(root) + check_rooms_have_readme(root) + check_unnamed_names(root)
    findings += check_documents(root) + check_scripts(root)
    if (root / "src/s3/errors.cc").exists():
        findings += check_s3_codes(root)
    for path, number, text in findings:
        print(f"{path.relative_to(root)}:{number}: {text}")
    print(f"{len(sources)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
