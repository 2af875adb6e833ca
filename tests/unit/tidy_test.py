#!/usr/bin/env python3
"""The house rules that a machine can check: tidy_test.py SOURCE_DIRECTORY

Headers stay short and say what they are for, sources stay readable, every test is built, nothing is left to do.
"""
import pathlib
import re
import subprocess
import sys

HEADER_LINES_MAX = 150
SOURCE_LINES_MAX = 500
# Not written out, so that this file keeps its own rule.
FORBIDDEN = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
TEXT_SUFFIXES = {".h", ".cc", ".py", ".sh", ".md", ".txt", ".cmake", ".yaml", ".yml", ".json", ""}


def files_of(root):
    """Files of the project: what git knows or would know; without git, everything outside build folders."""
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.decode().split("\0")
        return sorted(root / name for name in names if name and (root / name).is_file())
    skipped = {"build", ".git", ".ccache", "__pycache__"}
    return sorted(
        path for path in root.rglob("*") if path.is_file() and not skipped & set(path.relative_to(root).parts)
    )


def header_faults(path, lines):
    # A contract test that several test programs share is a header, but reads like a source file.
    lines_max = SOURCE_LINES_MAX if "tests" in path.parts else HEADER_LINES_MAX
    if len(lines) > lines_max:
        yield f"{len(lines)} lines; this header may have at most {lines_max}"
    if not lines or not lines[0].startswith("//"):
        yield "begins without a comment that says what it is for"
    if "#pragma once" not in lines:
        yield "lacks #pragma once"


def source_faults(path, lines):
    if len(lines) > SOURCE_LINES_MAX:
        yield f"{len(lines)} lines; a source file has at most {SOURCE_LINES_MAX}"
    if path.name.endswith("_test.cc"):
        build_file = path.parent / "CMakeLists.txt"
        names = build_file.read_text(encoding="utf-8") if build_file.exists() else ""
        if not re.search(rf"(?<![\w.-]){re.escape(path.name)}(?![\w.-])", names):
            yield f"is built by nobody: {build_file.name} beside it does not name it"


def faults_of(root, path):
    if path.suffix not in TEXT_SUFFIXES:
        return
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return  # data, whatever its name
    for number, line in enumerate(lines, 1):
        if match := FORBIDDEN.search(line):
            yield f"line {number} says {match[0]}; finish it, or take it out"
    if path.suffix == ".h":
        yield from header_faults(path.relative_to(root), lines)
    if path.suffix in {".cc", ".py"}:
        yield from source_faults(path, lines)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = files_of(root)
    if not any(path.suffix == ".cc" for path in files):
        sys.exit(f"no sources below {root}: is it the project?")
    faults = [f"{path.relative_to(root)}: {fault}" for path in files for fault in faults_of(root, path)]
    print("\n".join(faults) or f"{len(files)} files are tidy")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
