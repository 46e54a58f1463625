"""Compares what Crow says of skills with what the reference validator says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from skills_ref.validator import validate

program, folder = sys.argv[1], Path(sys.argv[2])
home = folder / "home"
skills = home / ".agents" / "skills"
skills.mkdir(parents=True)


def crow(*args):
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    ran = subprocess.run(
        [program, "skills", *args], env=environment, cwd=home, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran
    return ran.stdout, ran.stderr


def listed():
    out, err = crow("list", "-o", "json")
    return {skill["name"]: skill for skill in map(json.loads, out.splitlines())}, err


# 1) Skills of packages.
found = sorted((folder / "unpacked").glob("**/SKILL.md"))
names = set()
for file in found:
    name = file.parent.name
    if name not in names:
        names.add(name)
        shutil.copytree(file.parent, skills / name)
assert {"fastapi", "sqlmodel", "typer", "playwright-cli"} <= names, names
known, err = listed()
assert set(known) == names, (err, set(known) ^ names)
for name in names:
    out, _ = crow("show", name)
    assert len(out) > 200, (name, out)

# 2) Good and bad front matter.
CASES = {
    "plain": "name: plain\ndescription: d",
    "quoted": "name: quoted\ndescription: \"a: b\"",
    "folded": "name: folded\ndescription: >\n  two\n  lines",
    "literal": "name: literal\ndescription: |\n  two\n  lines",
    "licence": "name: licence\ndescription: d\nlicense: MIT\ncompatibility: any",
    "nested": "name: nested\ndescription: d\nmetadata:\n  author: a\n  version: \"1\"",
    "tools": "name: tools\ndescription: d\nallowed-tools: Bash Read",
    "größe": "name: größe\ndescription: d",
    "other": "name: another\ndescription: d",
    "Upper": "name: Upper\ndescription: d",
    "under_score": "name: under_score\ndescription: d",
    "-first": "name: -first\ndescription: d",
    "last-": "name: last-\ndescription: d",
    "two--hyphens": "name: two--hyphens\ndescription: d",
    "n" * 65: "name: " + "n" * 65 + "\ndescription: d",
    "no-name": "description: d",
    "no-description": "name: no-description",
    "empty": "name: empty\ndescription: \"\"",
    "long": "name: long\ndescription: " + "d" * 1025,
    "longest": "name: longest\ndescription: " + "d" * 1024,
    "compatible": "name: compatible\ndescription: d\ncompatibility: " + "c" * 501,
    "colon": "name: colon\ndescription: Use it when: asked",
}
shutil.rmtree(skills)
for name, head in CASES.items():
    (skills / name).mkdir(parents=True)
    (skills / name / "SKILL.md").write_text(f"---\n{head}\n---\n\nDo it.\n")
known, err = listed()
different = []
for name in CASES:
    is_valid = not validate(skills / name)
    is_fine = name in known and not known[name]["faults"]
    if is_valid != is_fine:
        different.append((name, validate(skills / name), known.get(name, {}).get("faults"), err))
assert not different, different

# 3) What can be used although it violates the format, and what cannot.
for name in ("other", "Upper", "under_score", "no-name", "long", "colon"):
    assert name in known, name
for name in ("no-description", "empty"):
    assert name not in known and f"skills/{name} cannot be used" in err, (name, err)
print(f"{len(names)} skills of packages, {len(CASES)} cases")
