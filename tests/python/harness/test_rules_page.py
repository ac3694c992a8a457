"""docs/harness-rules.md against the gate: every rule is there, and every example has the outcome that the page says."""

import re
import subprocess
from pathlib import Path

from turntree.harness import Gate, Project, Worktrees

PAGE = Path(__file__).parents[3] / "docs/harness-rules.md"
EXAMPLE = re.compile(r"^\| `(.+)`( in the main checkout)? \| (allow|warn|ask|deny) \|$")


def test_every_rule_and_every_example_of_the_page_is_true(tmp_path):
    main = tmp_path / "main"
    main.mkdir()
    for command in ("init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m Start"):
        subprocess.run(["git", "-C", main, *command.split()], check=True)
    gate = Gate.load(Project.find(Worktrees(Project.find(main)).create("x").path))
    tree = str(gate.project.worktree)
    text = PAGE.read_text()

    headings = re.findall(r"^## (\S+)$", text, re.MULTILINE)
    wrong, count = [], 0
    for line in text.splitlines():
        example = EXAMPLE.match(line)
        assert bool(example) == line.startswith("| `"), line
        if example:
            command, is_main, outcome = example[1].replace("\\|", "|"), example[2], example[3]
            count += 1
            action = {"kind": "shell", "command": command, "cwd": str(main) if is_main else tree}
            got = gate._decide(action)
            if got.outcome != outcome:
                wrong.append(f"{command}: {got.outcome}, not {outcome}: {got.reason}")

    assert headings == [rule["id"] for rule in gate.rules()]
    assert count > 80
    assert not wrong, "\n".join(wrong)
