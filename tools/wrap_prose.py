#!/usr/bin/env python3
"""Wraps the prose of Markdown files at 120 columns: wrap_prose.py [--check] FILE...

Paragraphs and items of lists are filled. Tables, code, headings, comments and lines of pictures stay as they are. Text in
backquotes is not broken, and no line is made to begin with what Markdown would take for an item of a list.
"""
import pathlib
import re
import sys

COLUMNS_MAX = 120
ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])\s+")
MARKUP = re.compile(r"([-*+|>#]|#+|\d+[.)]|<!--.*|```.*)$")  # a word with a meaning in Markdown at the start of a line
ALONE = re.compile(r"\s*(\||#|<|!\[|---|\[\^?[\w-]+\]:)")
HARD_BREAK = ("\\", "  ")


def words_of(text):
    """Words; text in backquotes counts as one, as does text at which Markdown would begin a list."""
    kept = re.sub(r"(`+)(?!`).+?\1", lambda code: code.group().replace(" ", "\0"), text)
    words = []
    for word in kept.split():
        if words and MARKUP.match(word):
            words[-1] += " " + word
        else:
            words.append(word)
    return [word.replace("\0", " ") for word in words]


def filled(text, first, rest):
    """`text` in lines of at most COLUMNS_MAX, which begin with `first` and then `rest`."""
    lines, line = [], first
    for word in words_of(text):
        if line.strip() and line != first and len(line) + len(word) + (not line.endswith(" ")) > COLUMNS_MAX:
            lines.append(line.rstrip())
            line = rest
        line += word if line in (first, rest) else " " + word
    return [*lines, line.rstrip()]


def paragraphs(text):
    """Lines of `text`, wrapped."""
    out, held, first, rest = [], [], "", ""
    code, indented = False, False

    def flush():
        nonlocal held
        if held:
            out.extend(filled(" ".join(held), first, rest))
        held = []

    for line in text.split("\n"):
        if re.match(r"\s*(```|~~~)", line):
            flush()
            code = not code
        elif not code and line.strip() and not ALONE.match(line):
            item = ITEM.match(line)
            blank_before = not out or not out[-1].strip()
            indented = line.startswith("    ") and not held and not item and (indented or blank_before) and not rest
            if indented:
                out.append(line)
                continue
            if item:
                flush()
                first, rest = item.group(), " " * len(item.group())
                line = line[item.end():]
            elif not held:
                first = rest = re.match(r"\s*", line).group() if line.startswith(" ") else ""
            held.append(line.strip().removesuffix("\\"))
            if line.endswith(HARD_BREAK):
                flush()
                out[-1] += "\\" if line.endswith("\\") else "  "
                first = rest
            continue
        flush()
        if line.strip() and not code:
            rest = ""
        out.append(line)
    flush()
    return "\n".join(out)


def main():
    names = [name for name in sys.argv[1:] if name != "--check"]
    wrong = []
    for name in names:
        path = pathlib.Path(name)
        before = path.read_text(encoding="utf-8")
        after = paragraphs(before)
        if after == before:
            continue
        wrong.append(name)
        if "--check" not in sys.argv:
            path.write_text(after, encoding="utf-8")
    if "--check" in sys.argv and wrong:
        print("not wrapped:", *wrong)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
