#!/usr/bin/env python3
"""Tests of the source tree: includes between rooms, and patterns that sources must not contain.

Run from the repository root: house_test.py [ROOT]. Exits non-zero and names file and line for each finding.
"""
import pathlib
import re
import sys
import tempfile
import tomllib

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import seams  # noqa: E402
import wrap_prose  # noqa: E402

# Rooms from the top down. A file may include its own room and rooms further down.
ROOMS = ["cli", "client", "server", "admin", "native", "http", "iam", "events", "sign_in", "s3_http", "s3", "call", "observe", "auth", "rdma", "store", "cache", "fabric", "net", "memory", "base"]
# The client is not above the server: it shares these rooms with it and no other.
CLIENT_MAY_USE = {"client", "auth", "rdma", "fabric", "net", "memory", "base"}
CLIENT_MAY_INCLUDE = re.compile(r"native/wire(\.h$|/)")
# The folders inside a room, from the top down; "." is the room's own files. A file may include its own folder and those of
# lines further down. Folders on one line do not know each other.
FOLDERS = {
    "cli": ["program", "rados", "bench", "."],
    "client": ["testing", "c", "api", "native token", "http", "."],
    "fabric": ["local ofi sealed tcp", "."],
    "native": [".", "wire"],
    "net": ["testing", "."],
    "rdma": ["dc", "rc", "."],
    "store": ["conformance", "local memory rados", "logic", "."],
    "store/rados": ["inspect", ".", "coherence", "bytes", "upkeep", "rows", "members", "cluster"],
    "s3_http": ["routing", "dialects objects buckets", "."],
    "s3": ["workers", "objects buckets", "events", "access", "documents express", "."],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
ANGLE = re.compile(r"^\s*#\s*include\s+<([^>]+)>")
TEST_NAME = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)", re.M)
LINES_MAX = 800
COLUMNS_MAX = 120
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
# Words that hide what acts: a caller, another server, a thread. Names and quoted text may have them.
NO_AGENT = re.compile(r"\b(nobody|somebody|anybody|everybody|whoever)\b", re.I)
QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|`[^`]*`')

# Paths as texts cite them: with a file's ending anywhere, without one between backticks.
PLACES = ["src", "tests", "docs", "bench", "tools", "fuzz", "cmake", "include", "deploy", "clients", *ROOMS]
CITED_FILE = re.compile(r"(?<![\w./~$}<-])((?:" + "|".join(PLACES) + r")/[\w./-]*\.(?:cc|h|py|md|json|sh|txt|ya?ml|cmake))\b")
CITED_PLACE = re.compile(r"`((?:" + "|".join(PLACES) + r")/[\w./-]+)`")
# `room::name`, which a reader would look for in the sources.
CITED_NAME = re.compile(r"`((?:" + "|".join(ROOMS) + r")(?:::\w+)+)(?:\(\))?`")
# Documents that its builders have and a reader of the repository has not.
ELSEWHERE = re.compile(r"\b(DESIGN|PROTOCOLS|STYLE)\b(?!\.)")


def rank(room):
    return ROOMS.index(room)


def folder_rank(place, name):
    """The line of FOLDERS[place] on which a folder stands, or None."""
    return next((line for line, names in enumerate(FOLDERS[place]) if name in names.split()), None)


def check_folders(inside, target):
    """The finding for an include between folders of one room, or None. Both are paths from src/."""
    for place in FOLDERS:
        if not (inside.startswith(place + "/") and target.startswith(place + "/")):
            continue
        names = [path[len(place) + 1:].split("/") for path in (inside, target)]
        upper, lower = (name[0] if len(name) > 1 else "." for name in names)
        ranks = folder_rank(place, upper), folder_rank(place, lower)
        if None in ranks:
            return f"{place}/{(upper, lower)[ranks.index(None)]} has no place in the order of folders (FOLDERS)"
        if upper != lower and ranks[0] >= ranks[1]:
            return f"{place}/{upper} includes {target}: inside a room, too, arrows point down only"
    return None


def check_include(inside, target):
    """The finding for one include of a file, or None. `inside` is the file's path from src/."""
    path, room = pathlib.PurePath(inside), inside.split("/")[0]
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
    return check_folders(inside, target)


def exists(root, path, cited):
    """Whether a text at `path` may cite this: from the root, from src/ or include/, or from its own folder; without an
    ending, too."""
    for folder in (root, root / "src", root / "include", path.parent):
        place = folder / cited.rstrip("/.")
        if place.exists() or (place.parent.is_dir() and list(place.parent.glob(place.name + ".*"))):
            return True
    return False


def check_citations(root, path, number, text):
    """Files and names cited by a document or comment must exist."""
    findings = []
    for cited in CITED_FILE.findall(text) + CITED_PLACE.findall(text):
        if not exists(root, path, cited):
            findings.append((path, number, f"cites {cited}, which is not in the repository"))
    if ELSEWHERE.search(text):
        findings.append((path, number, f"cites {ELSEWHERE.search(text).group(1)}, which is not in the repository"))
    return findings


def check_agents(path, number, text):
    """Comments and documents name what acts: machines, clients and people have a word of their own."""
    return [(path, number, f"'{word}' as an agent: name what acts") for word in NO_AGENT.findall(QUOTED.sub("", text))]


def cells(row):
    """How many cells a row of a table has. A bar parts two, in code too, unless a backslash stands before it."""
    return len(re.split(r"(?<!\\)\|", row.strip().strip("|")))


def check_tables(path, text):
    """Rows that follow each other are one table: a head, a line of dashes, and rows of as many cells. A row that stands
    elsewhere is shown as text, and a cell too many is not shown at all."""
    findings, block, code = [], [], False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if re.match(r"\s*(```|~~~)", line):
            code = not code
        if line.lstrip().startswith("|") and not code:
            block.append((number, line))
            continue
        if block:
            first, head = block[0]
            if len(block) < 2 or not re.fullmatch(r"\s*\|(\s*:?-+:?\s*\|)+\s*", block[1][1]):
                findings.append((path, first, "rows outside a table: there is no head with dashes under it"))
            else:
                findings += [(path, at, f"{cells(row)} cells in a table of {cells(head)} columns")
                             for at, row in block[1:] if cells(row) != cells(head)]
        block = []
    return findings


def check_prose(root):
    """Prose that people read is wrapped, and the tests that ARCHITECTURE names for what holds are there."""
    findings = [(path, 1, "its prose is not wrapped: run tools/wrap_prose.py on it")
                for path in sorted([*root.glob("[B-Z]*.md"), *(root / "docs").glob("*.md")])
                if wrap_prose.paragraphs(path.read_text()) != path.read_text()]
    architecture = root / "ARCHITECTURE.md"
    text = architecture.read_text() if architecture.exists() else ""
    holds = text[text.find("## What holds"):text.find("## Dependencies")]
    tests = [path.read_text() for folder in ("src", "tests") for path in sorted((root / folder).rglob("*_test.cc"))]
    known = {".".join(name) for text in tests for name in TEST_NAME.findall(text)}
    return findings + [(architecture, 1, f"names the test {name}, which is not there")
                       for name in re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", holds)
                       if name not in known and name != "Suite.Test"]


def check_documents(root, sources):
    findings = []
    words = set(re.findall(r"\w+", "".join(path.read_text() for path in sources)))
    for path in sorted(root.rglob("*.md")):
        if path.relative_to(root).parts[0].startswith((".", "build")) or "node_modules" in path.parts:
            continue
        findings += check_tables(path, path.read_text())
        for number, line in enumerate(path.read_text().splitlines(), 1):
            findings += check_citations(root, path, number, line) + check_agents(path, number, line)
            findings += [(path, number, f"cites {name}, which is not in the sources") for name in CITED_NAME.findall(line)
                         if not set(name.split("::")) <= words]
    return findings


def check_scripts(root):
    findings = []
    for path in [*sorted((root / "tests").rglob("*.py")), *sorted((root / "bench").rglob("*.py"))]:
        if path.name == "house_test.py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if UNFINISHED.search(line):
                findings.append((path, number, "unfinished business: finish it or write an issue"))
            if "#" in line or '"""' in line:
                findings += check_citations(root, path, number, line)
    return findings


def expressions(text, word):
    """The text after each `word` to the end of its expression, over several lines if needed: (line, expression)."""
    # Comments, strings and characters have no brackets that count. Lines stay lines.
    plain = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', '""', text)
    for match in re.finditer(rf"\b{word}\b", plain):
        depth, end = 0, match.end()
        while end < len(plain) and depth >= 0 and not (depth == 0 and plain[end] == ";"):
            depth += (plain[end] in "([{") - (plain[end] in ")]}")
            end += 1
        yield plain.count("\n", 0, match.start()) + 1, plain[match.end():end]


def check_awaits(path, text):
    """GCC 12 frees twice the captures of a lambda inside a co_await expression, and a braced aggregate
    among its arguments likewise: name them first."""
    findings = []
    for number, awaited in expressions(text, "co_await"):
        if re.search(r"\[[^\]\[]*[&=\w][^\]\[]*\]\s*(\([^)]*\))?\s*(mutable\s*)?(->[^{]*)?\{", awaited):
            findings.append((path, number, "capturing lambda inside a co_await expression (GCC 12 double free)"))
        elif re.search(r"[(,]\s*\{", awaited):
            findings.append((path, number, "braced aggregate inside a co_await expression (GCC 12 double free)"))
    return findings


def check_code(root, path, text):
    """What holds in any file of C++, tests and tools among them."""
    findings = check_awaits(path, text)
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            findings.append((path, number, "unfinished business: finish it or write an issue"))
        if len(line) > COLUMNS_MAX:
            findings.append((path, number, f"{len(line)} columns, {COLUMNS_MAX} at most"))
        if "//" in line and not INCLUDE.match(line):
            findings += check_citations(root, path, number, line.split("//", 1)[1])
            findings += check_agents(path, number, QUOTED.sub('""', line).partition("//")[2])
    if path.suffix == ".h" and "#pragma once" not in text and path.parts[-2:] != ("verbena", "verbena.h"):
        findings.append((path, 1, "header without #pragma once"))
    if len(lines) > LINES_MAX:
        findings.append((path, LINES_MAX, f"{len(lines)} lines: look for the second subject"))
    return findings


def check_source(root, path, text=None):
    text = path.read_text() if text is None else text
    findings = check_code(root, path, text)
    inside = path.relative_to(root / "src").as_posix()
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        finding = check_include(inside, match.group(1)) if match else None
        if finding:
            findings.append((path, number, finding))
    return findings


def check_other_code(root):
    """The C++ that lies beside src/."""
    findings = []
    for folder in ("include", "bench", "fuzz", "tests"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cc", ".h"):
                findings += check_code(root, path, path.read_text())
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
        while folder != root / "src" and not (folder / "CMakeLists.txt").exists():
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
    known = set(re.findall(r'"([A-Z][A-Za-z0-9]{5,})"', (root / "src/s3/errors.cc").read_text()))
    codes = known & {"NoSuchKey", "NoSuchBucket", "NoSuchUpload", "AccessDenied", "SlowDown", "InvalidRange", "PreconditionFailed",
                     "SignatureDoesNotMatch", "InvalidAccessKeyId", "EntityTooSmall", "BadDigest", "InternalError"}
    if not codes:
        return [(root / "src/s3/errors.cc", 1, "no S3 error code is found here: this rule would find nothing")]
    pattern = re.compile(r'"(' + "|".join(sorted(codes)) + r')"')
    for path in sorted([*(root / "src").rglob("*.cc"), *(root / "src").rglob("*.h")]):
        room = path.relative_to(root / "src").parts[0]
        if path.name == "errors.cc" or path.name.endswith("_test.cc") or "test_" in path.name or room in ("client", "cli"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if pattern.search(line.split("//", 1)[0]):
                findings.append((path, number, "an S3 error code outside s3/errors.cc"))
    return findings


def check_rooms_have_readme(root):
    return [(folder, 1, "a room needs a README.md: what lives here, who may call it")
            for folder in sorted((root / "src").iterdir())
            if folder.is_dir() and any(folder.iterdir()) and not (folder / "README.md").exists()]


def check_planted(root):
    """tools/planted.py replaces a text that stands once in its file: an edit that fits no more plants nothing."""
    findings = []
    for table in sorted((root / "tests").glob("*/planted*.toml")):
        for fault in tomllib.loads(table.read_text())["fault"]:
            changed = {}
            for edit in fault["edit"]:
                source = root / edit["file"]
                text = changed.get(source) or (source.read_text() if source.exists() else "")
                if (times := text.count(edit["old"])) != 1:
                    findings.append((table, 1, f"{fault['name']}: {edit['file']} has {times} times {edit['old']!r}"))
                if edit["old"] == edit["new"]:
                    findings.append((table, 1, f"{fault['name']}: {edit['file']} stays as it is"))
                changed[source] = text.replace(edit["old"], edit["new"])
    return findings


def everything(root):
    """All findings, and how many files of src/ were looked at."""
    sources = [path for path in sorted((root / "src").rglob("*")) if path.suffix in (".cc", ".h")]
    assert sources, "no sources found"
    findings = [finding for path in sources for finding in check_source(root, path)]
    findings += check_other_code(root) + check_public_headers(root) + check_rooms_have_readme(root)
    findings += check_unnamed_names(root) + check_documents(root, sources) + check_prose(root) + check_scripts(root)
    findings += check_s3_codes(root) + check_planted(root) + seams.check_seams(root)
    return findings, len(sources)


# A repository that breaks each rule once: file, text, the expected finding.
BROKEN = [
    ("src/base/README.md", "see `src/base/absent.cc`\n", "cites src/base/absent.cc"),
    ("docs/a.md", "`base::forgotten` is called\n", "cites base::forgotten"),
    ("docs/long.md", "a word " * 20 + "\n", "its prose is not wrapped"),
    ("ARCHITECTURE.md", "## What holds\n\n`Rules.ThatNothingShows`\n\n## Dependencies\n", "names the test Rules.ThatNothingShows"),
    ("docs/b.md", "as DESIGN section 3 says\n", "cites DESIGN"),
    ("docs/rows.md", "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| 3 | 4 |\n", "rows outside a table"),
    ("docs/cells.md", "| a | b |\n| --- | --- |\n| 1 | `2|3` |\n", "3 cells in a table of 2 columns"),
    ("src/base/todo.cc", "// TODO: later\n", "unfinished business"),
    ("src/base/fixme.cc", "int x;  // FIXME\n", "unfinished business"),
    ("tests/matrix/todo_test.cc", "int x;  // TODO\n", "unfinished business"),
    ("tests/todo_test.py", "# TODO: later\n", "unfinished business"),
    ("src/base/agent.cc", "int x;  // Nobody's\n", "'Nobody' as an agent"),
    ("src/base/agents.h", "#pragma once\n// Runs until somebody stops it.\n", "'somebody' as an agent"),
    ("fuzz/agent_fuzz.cc", "// whoever sends it\n", "'whoever' as an agent"),
    ("docs/agent.md", "everybody may\n", "'everybody' as an agent"),
    ("src/base/wide.cc", "// " + "x" * COLUMNS_MAX + "\n", "columns"),
    ("bench/wide.cc", "// " + "x" * COLUMNS_MAX + "\n", "columns"),
    ("src/base/cites.cc", "// see s3/nowhere.cc\n", "cites s3/nowhere.cc"),
    ("src/base/place.cc", "// see `s3/nowhere`\n", "cites s3/nowhere"),
    ("src/base/elsewhere.cc", "// as PROTOCOLS section 3 says\n", "cites PROTOCOLS"),
    ("tests/cites_test.py", "# see tests/lib/absent.py\n", "cites tests/lib/absent.py"),
    ("src/base/up.cc", '#include "s3/service.h"\n', "arrows point down only"),
    ("src/base/public.cc", '#include "verbena/client.h"\n', "only client/ and cli/"),
    ("src/base/nowhere.cc", '#include "router.h"\n', "not spelled from src/"),
    ("src/client/store.cc", '#include "store/store.h"\n', "client/ may not use store/"),
    ("src/s3/fabric.cc", '#include "fabric/fabric.h"\n', "s3/ knows no fabric"),
    ("src/base/lambda.cc", "co_await f([&] { g(); });\n", "capturing lambda"),
    ("src/base/lambda_below.cc", "co_await f(a,\n         [this] {\n  g();\n});\n", "capturing lambda"),
    ("fuzz/lambda_fuzz.cc", "co_await f([=]() mutable { g(); });\n", "capturing lambda"),
    ("src/base/braces.cc", "co_await f({1, 2});\n", "braced aggregate"),
    ("src/base/braces_below.cc", "co_await f(a,\n           {1, 2});\n", "braced aggregate"),
    ("src/base/bare.h", "int f();\n", "header without #pragma once"),
    ("src/s3/clock.cc", "auto now = std::chrono::steady_clock::now();\n", "clock not by base/"),
    ("src/s3/date.cc", "auto now = std::time(nullptr);\n", "clock not by base/"),
    ("src/s3/cycles.h", "#pragma once\ninline auto f() { return __builtin_ia32_rdtsc(); }\n", "cycles not by base/"),
    ("src/s3/dice.cc", "std::random_device dice;\n", "randomness not by base/"),
    ("src/s3/seed.cc", "::getrandom(at, 8, 0);\n", "randomness not by base/"),
    ("src/s3/timer.cc", "int fd = timerfd_create(CLOCK_MONOTONIC, 0);\n", "timer not by base/"),
    ("src/s3/thread.cc", "std::jthread thread(run);\n", "thread not by base/"),
    ("src/s3/nap.cc", "std::this_thread::sleep_for(rest);\n", "sleep not by base/"),
    ("src/s3/raw.cc", "::syscall(SYS_futex);\n", "system call not by base/"),
    ("tests/house/seams.toml", '[thread]\n"s3/known" = "a reason"\n[sleep]\n"s3/gone" = "no more"\n', "sleep: s3/gone has none any more"),
    ("src/base/long.cc", "int x;\n" * (LINES_MAX + 1), "look for the second subject"),
    ("src/base/one.cc", "namespace {\nvoid same(int a) {\n}\n}  // namespace\n", None),
    ("src/base/two.cc", "namespace {\nvoid same(int b) {\n}\n}  // namespace\n", "'same' is in the unnamed namespace of one.cc"),
    ("src/store/CMakeLists.txt", "\n", None),
    ("src/store/store.cc", "int x;\n", None),
    ("include/verbena/a.h", "#pragma once\n#include <boost/asio.hpp>\n", "public header includes boost/asio.hpp"),
    ("src/s3/errors.cc", '{"NoSuchKey", 404}\n', None),
    ("src/s3/code.cc", 'x = "NoSuchKey";\n', "an S3 error code outside s3/errors.cc"),
    ("src/s3/code.h", '#pragma once\nconstexpr auto x = "NoSuchKey";\n', "an S3 error code outside s3/errors.cc"),
    ("src/fabric/tcp/README.md", "the README of a folder is none of its room\n", None),
    ("src/fabric/fabric.h", '#pragma once\n#include "fabric/tcp/tcp.h"\n', "fabric/. includes fabric/tcp/tcp.h"),
    ("src/fabric/tcp/beside.cc", '#include "fabric/local/local.h"\n', "fabric/tcp includes fabric/local/local.h"),
    ("src/fabric/quic/quic.cc", '#include "fabric/fabric.h"\n', "fabric/quic has no place in the order of folders"),
    ("src/store/logic/up.cc", '#include "store/local/up.h"\n', "store/logic includes store/local/up.h"),
    ("tests/zoo/planted.toml", """[[fault]]
name = "a check is missing"
edit = [{file = "src/base/one.cc", old = "void same", new = ""}, {file = "src/base/one.cc", old = "void same", new = ""}]
""", "src/base/one.cc has 0 times 'void same'"),
    ("tests/zoo/planted_twice.toml", """[[fault]]
name = "a text stands in two places"
edit = [{file = "src/base/two.cc", old = "namespace", new = ""}]
""", "src/base/two.cc has 2 times 'namespace'"),
    ("tests/zoo/planted_same.toml", """[[fault]]
name = "nothing is changed"
edit = [{file = "src/store/store.cc", old = "int x", new = "int x"}]
""", "src/store/store.cc stays as it is"),
    ("tests/zoo/planted_absent.toml", """[[fault]]
name = "a file has gone"
edit = [{file = "src/base/gone.cc", old = "int x", new = ""}]
""", "src/base/gone.cc has 0 times"),
    # Allowed text, which must cause no finding.
    ("tests/simulator/planted.toml", """[[fault]]
name = "a fault that can be planted"
edit = [{file = "src/store/store.cc", old = "int x", new = "int y"}, {file = "src/store/store.cc", old = "int y", new = ""}]
""", None),
    ("src/store/local/down.cc", '#include "store/logic/keys.h"\n#include "store/local/up.h"\n#include "store/store.h"\n', None),
    ("src/store/logic/up_test.cc", '#include "store/local/up.h"\n', None),
    ("src/s3/sound.cc", "// see s3/errors.cc and `base/one.cc`\nco_await f(named);  // f({1}, [&] {})\n// to do it\n", None),
    ("src/base/named.cc", 'x = "http://nobody";  // the user "nobody", and `whoever`\nint somebody = 1;  // a name\n', None),
    ("docs/named.md", "the user `nobody`\n", None),
    ("docs/tables.md", "| a | b |\n| --- | :-: |\n| `1\\|2` | |\n\ntext\n\n```\n| no table |\n```\n", None),
    ("src/s3/down.cc", '#include "store/store.h"\n', None),
    ("src/s3/known.h", "#pragma once\nstd::thread worker;\n", None),
    ("src/s3/known_test.cc", "std::thread a(f);\nstd::this_thread::sleep_for(rest);\n", None),
    ("src/s3/times.cc", 'SteadyClock::now();  // not time(nullptr)\nx = "rand()"; std::thread::id who; strand(io); last_time();\n', None),
    ("src/base/seam.cc", "auto now = std::chrono::system_clock::now();\n", None),
]
NO_README = ["client", "fabric", "s3", "store"]


def canary():
    """The rules must be able to fail: in a repository that breaks each of them all is found, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="verbena-house-") as folder:
        root = pathlib.Path(folder)
        for name, text, _ in BROKEN:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for room in ("base", "client", "fabric", "s3"):
            (root / "src" / room / "CMakeLists.txt").write_text("")
        found = [(str(path.relative_to(root)), text) for path, _, text in everything(root)[0]]
        wanted = [(name, text) for name, _, text in BROKEN if text]
        wanted += [(f"src/{room}", "a room needs a README.md") for room in NO_README]
        for name, text in wanted:
            assert any(at == name and text in what for at, what in found), f"not found in {name}: {text}"
        for at, what in found:
            assert any(at == name and text in what for name, text in wanted), f"wrongly found: {at}: {what}"
        (root / "src/s3/errors.cc").write_text("\n")
        assert check_s3_codes(root), "a rule that finds no codes says so"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    canary()
    findings, looked_at = everything(root)
    for path, number, text in findings:
        print(f"{path.relative_to(root)}:{number}: {text}")
    print(f"{looked_at} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
