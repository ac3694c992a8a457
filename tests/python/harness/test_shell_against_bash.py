"""The facts of commands against what bash runs: random scripts, with stub programs that record their arguments.

Everything that bash runs must be in the facts: as an equal list of words, in which a word that is not known stands for
any text, or as a part of the script that is not understood. `make test-long` runs 20000 scripts.
"""

import os
import random
import shutil
import subprocess
from itertools import islice

import pytest

from turntree.harness import Gate, Project

CASES = int(os.environ.get("TURNTREE_SHELL_CASES", "300"))
SEED = int(os.environ.get("TURNTREE_SHELL_SEED", "7"))
PROGRAMS = ("s1", "s2", "s3", "s4")
STUB = """#!/bin/bash
# One write for each call: bash writes at each end of a line, and calls in the background would mix.
set -- "${0##*/}" "${@//$'\\n'/$'\\002'}"
printf '%s\\0' "$@" $'\\001' >> "$LOG"
echo o
"""
WORDS = (
    "a", "bc", "-f", "--force", "x=1", "./y", "'a b'", "'$V'", '"a b"', '"$V"', "$V", "${V}", "${V:-d}", "${W:-d e}",
    '"${V}x"', "a\\ b", "\\\\", "\\'", '"a\\"b"', '"\\$V"', "$'a\\tb'", "$'\\x41'", "{a,b}", "p{1,2}q", "~/x",
    "$(s1)", '"$(s2 q)"', "`s3`", "*.nothing", "[z]q", "$((1+2))", '""', "''", "a#b", "1", "é", "'a'\"b\"c",
    "\"a\"'b'$V", "${#V}", "${V%y}", "$W", '"$W"', "--", "=", "a{b", "!", "a\\\nb", "$", "a$", '"$"', "%", "@",
    "+x", "a:b", "'a\nb'", "{a}", "{,x}", "a{b,c}{d,e}", "'it'\\''s'", "~",
    "{a},b}", "{a,b}}", "{}", "{},x}", "{a{b},c}", "{a,{c}},d}", "{a}{b,c}", "{a,b{c}", "{~,x}", "x{,~}", "~'a'", "$B",
    "{a\\,b,c}", "{'a,b',c}", "{a,$V}", "{$B,x}", "{a,}}", "{{a,b},c}",
)  # fmt: skip
CALLS = ("s1", "s2", "s3", "s4", "'s1'", '"s2"', "s\\3", "s'4'", "$P", '"$P"', "${P}", "\\s1", "s''1")


def scripts(seed):
    """Random scripts, the same for the same seed."""
    draw = random.Random(seed)

    def call(depth):
        words = [draw.choice(CALLS), *(draw.choice(WORDS) for _ in range(draw.randrange(4)))]
        if draw.random() < 0.15:
            words.insert(0, draw.choice(["A=1", "A='x y'", "A=$V", "LC_ALL=C"]))
        if draw.random() < 0.15:
            words.insert(
                0,
                draw.choice(
                    ["env", "command", "nohup", "env B=2", "nice", "timeout 5", "exec", "time", "env -u Q", "!"]
                ),
            )
        if draw.random() < 0.15:
            words.append(
                draw.choice([">/dev/null", "2>&1", ">> out", "<<< $V", "< /dev/null", "2>/dev/null", "&>/dev/null"])
            )
        text = " ".join(words)
        if depth and draw.random() < 0.3:
            return nested(text, depth)
        return text

    def nested(text, depth):
        other = script(depth - 1)
        plain = text.replace("'", "'\\''")
        kinds = (
            f"( {other} )",
            f"{{ {other}; }}",
            f"if {text}; then {other}; else {call(0)}; fi",
            f"for i in 1 2; do {text}; s1 $i; done",
            f"while {text}; do {other}; break; done",
            f"case $V in x*) {text};; *) {other};; esac",
            f"bash -c '{plain}'",
            f"bash -c '{plain}' name arg",
            f"eval '{plain}'",
            f"bash <<'END'\n{other}\nEND\n",
            f"bash <<< '{plain}'",
            f"echo '{plain}' | bash",
            f"f() {{ {text}; }}; f",
            "xargs s2 <<< 'p q'",
            f"s4 <({text})",
            f'V=$(echo q; {text}); s1 "$V"',
            f"cat <<END | s3\n$({text})\nEND\n",
            f"cd /; {text}; cd - >/dev/null",
            f"[[ -n $V ]] && {text}",
            f"trap '{plain}' EXIT",
            f"find . -maxdepth 0 -exec {draw.choice(PROGRAMS)} {{}} \\;",
        )
        return draw.choice(kinds)

    def script(depth):
        parts = [call(depth)]
        for _ in range(draw.randrange(3)):
            parts += [draw.choice([" && ", " || ", "; ", " | ", "\n", " & "]), call(depth)]
        return "".join(parts)

    while True:
        yield "V=xy\nW='a b'\nP=s4\nB='{p,q}'\n" + script(2)


def executed(log):
    """The lists of words that the stubs have recorded."""
    if not log.exists():
        return []
    calls = log.read_bytes().decode("utf-8", "surrogateescape").replace("\x02", "\n").split("\x01\0")
    return [call.split("\0")[:-1] for call in calls if call]


def is_found(argv, commands):
    """Whether the facts have a command for what bash has run."""
    for command in commands:
        words = command["argv"]
        if not words:
            continue
        program = words[0].rsplit("/", 1)[-1] if words[0] is not None else None
        if program not in (None, argv[0]):
            continue
        # A word that is not known may be several, or none; `xargs` adds words.
        if None in words or command["via"] in ("xargs", "find -exec"):
            known = [word for word in words[1:] if word is not None]
            rest = iter(argv[1:])
            if command["via"] == "find -exec" or all(word in rest for word in known):
                return True
        elif words[1:] == argv[1:]:
            return True
    return False


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.timeout(3000)
def test_everything_that_bash_runs_is_in_the_facts(tmp_path):
    programs, folder, logs = tmp_path / "bin", tmp_path / "work", tmp_path / "logs"
    for made in (programs, folder, logs):
        made.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o755)
    cases = list(islice(scripts(SEED), CASES))
    for number, case in enumerate(cases):
        (logs / f"{number}.sh").write_text(case)
    loop = 'for n in $(seq 0 $1); do LOG="$2/$n" timeout 20 bash "$2/$n.sh" </dev/null >/dev/null 2>&1; done'
    env = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    command = ["bash", "-c", loop, "loop", str(CASES - 1), str(logs)]
    subprocess.run(command, cwd=folder, env=env, check=False)
    gate = Gate.load(Project.find(folder))

    missed, ran = [], 0
    for number, case in enumerate(cases):
        calls = executed(logs / str(number))
        ran += len(calls)
        gate.check({"kind": "shell", "command": case})
        facts = gate.audit(1)[0]["facts"]["shell"]
        missed += [
            f"{case!r}\n  bash ran {argv}\n  facts {[c['argv'] for c in facts['commands']]}"
            for argv in calls
            if not facts["unknown"] and not is_found(argv, facts["commands"])
        ]

    assert ran > CASES
    assert not missed, f"{len(missed)} of {ran} calls:\n" + "\n".join(missed[:20])
