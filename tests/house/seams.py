"""Time, randomness and threads of src/ come through base/, or from where tests/house/seams.toml says, with the reason."""
import re
import tomllib

SEAMS = {
    "clock": r"\b(?:steady|system|high_resolution)_clock::now\(|\busing \w+ = std::chrono::(?:steady|system|high_resolution)_clock;|\bclock_gettime\(|\bgettimeofday\(|(?<![\w.>])time\((?:nullptr|NULL|0)?\)",
    "cycles": r"\b\w*rdtscp?\b|\bcntvct_el0\b",
    "randomness": r"\brandom_device\b|\bget(?:random|entropy)\(|\b(?:arc4random\w*|drand48|rand|srand|srandom|RAND_bytes|RAND_priv_bytes)\(|::random\(\)",
    "timer": r"\b(?:timerfd|timer)_create\(|\bsetitimer\(|\balarm\(",
    "thread": r"\bstd::j?thread\b(?!::)|\bpthread_create\(|\bstd::async\(|\bv?fork\(|\bclone3?\(",
    "sleep": r"\bsleep_(?:for|until)\(|\b(?:u|nano|clock_nano)sleep\(|(?<!\w)::sleep\(",
    "system call": r"\bsyscall\(",
}
# Comments and quoted text. Lines stay lines.
TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


def is_product(inside):
    """Tests and what they are made of are in src/, too."""
    return not re.search(r"_test\.cc$|(^|/|_)(test|testing|hostile|conformance)[_./]", inside)


def check_seams(root):
    table = root / "tests/house/seams.toml"
    allowed = tomllib.loads(table.read_text()) if table.exists() else {}
    findings, used = [], set()
    for path in sorted((root / "src").rglob("*")):
        inside = path.relative_to(root / "src").as_posix()
        if path.suffix not in (".cc", ".h") or inside.startswith("base/") or not is_product(inside):
            continue
        text = TEXT.sub('""', path.read_text())
        for kind, pattern in SEAMS.items():
            places = {inside.rsplit(".", 1)[0], inside.split("/")[0] + "/"} & allowed.get(kind, {}).keys()
            for match in re.finditer(pattern, text):
                used |= {(kind, place) for place in places}
                if not places:
                    findings.append((path, text.count("\n", 0, match.start()) + 1,
                                     f"{kind} not by base/, `{match.group()}`: see tests/house/seams.toml"))
    findings += [(table, 1, f"{kind}: {place} has none any more") for kind, places in allowed.items() for place in places
                 if (kind, place) not in used]
    return findings
