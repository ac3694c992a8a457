"""Statistics and tables of a comparison: medians, ratios and confidence intervals."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases import BY_NAME, CASES, STEPS, Case

OURS = "turntree"
FLOOR = "floor"
BEGIN, END = "<!-- table -->", "<!-- /table -->"
RESAMPLES = 2000
# The work of pydantic, or of Python alone, that the same direction requires without any conversion.
COUNTERPARTS = {
    "objects_to_thread": "pydantic_dump_json",
    "json_to_thread_json": "pydantic_both",
    "thread_to_objects": "pydantic_validate_json",
    "thread_json_to_json": "pydantic_both",
    "canonical_thread": "sorted_json",
}

Samples = Sequence[float]


def interval(statistic: Any, *samples: Samples) -> tuple[float, float]:
    """Return a bootstrap 95 % confidence interval.

    Rounds are drawn with replacement, the same ones for every sample: in a round the peers ran one after another, so
    what disturbed one disturbed all.
    """
    rounds = min(map(len, samples))
    draw = random.Random(20260101)
    values = []
    for _ in range(RESAMPLES):
        chosen = [draw.randrange(rounds) for _ in range(rounds)]
        values.append(statistic(*([sample[index] for index in chosen] for sample in samples)))
    values.sort()
    return values[int(0.025 * RESAMPLES)], values[int(0.975 * RESAMPLES) - 1]


def ratio(peer: Samples, ours: Samples) -> float:
    """Return the ratio of the peer's median to that of turntree."""
    return statistics.median(peer) / statistics.median(ours)


def summarise(result: dict[str, Any]) -> None:
    """Add medians, intervals and ratios to all measured cells."""
    for row in result["cases"].values():
        ours = row.get(OURS, {})
        for cell in row.values():
            for clock in ("cpu", "wall"):
                samples = cell.get(clock)
                if not samples:
                    continue
                cell[f"{clock}_median"] = statistics.median(samples)
                cell[f"{clock}_interval"] = interval(statistics.median, samples)
                if ours.get(clock) and cell is not ours:
                    cell[f"{clock}_ratio"] = ratio(samples, ours[clock])
                    cell[f"{clock}_ratio_interval"] = interval(ratio, samples, ours[clock])


def markdown(result: dict[str, Any]) -> str:
    """Return the report."""
    parts = [_machine(result), _targets(result), _agents(result, "cpu", "CPU time of the process")]
    parts += [_agents(result, "wall", "Wall time"), _saved(result), _conversions(result), _notes(result)]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(path: Path, text: str) -> None:
    """Write the report, between the markers if the file has them."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if BEGIN in before and END in before:
        head, rest = before.split(BEGIN, 1)
        tail = rest.split(END, 1)[1]
        text = f"{head}{BEGIN}\n\n{text}\n{END}{tail}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _machine(result: dict[str, Any]) -> str:
    machine, run = result["machine"], result["run"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}; {machine['system']}; {machine['python']}; "
        f"load {machine['load']} at start. {run['date']}, {run['repetitions']} interleaved repetitions"
        + (" (a quick run: too short to quote)." if run["quick"] else "."),
        "",
        "| peer | versions |",
        "|---|---|",
    ]
    for name, peer in result["peers"].items():
        versions = ", ".join(f"{name} {version}" for name, version in peer.get("versions", {}).items())
        lines.append(f"| {name} | {versions or peer['error']} |")
    return "\n".join(lines)


def _targets(result: dict[str, Any]) -> str:
    """Return the targets that this run measures."""
    lines = [
        "### Targets of this run",
        "",
        "| work | target | turntree | | best peer | floor |",
        "|---|---|---|---|---|---|",
    ]
    for case in CASES:
        row = result["cases"].get(case.name)
        if case.limit is None or row is None:
            continue
        conversion = case.group == "conversion"
        if conversion:
            counterpart = COUNTERPARTS.get(case.name, "")
            row = {**row, "pydantic_ai": result["cases"].get(counterpart, {}).get("pydantic_ai", {})}
        peers = [
            (cell["cpu_median"], name, cell)
            for name, cell in row.items()
            if name not in (OURS, FLOOR) and "cpu_median" in cell
        ]
        _, best, cell = min(peers, default=(0.0, "", None), key=lambda entry: entry[0])
        if cell and conversion:
            best = _alone(COUNTERPARTS[case.name])
        ours = row.get(OURS, {})
        columns = [case.title, case.target, _value(case, ours, "cpu"), _verdict(case, ours)]
        columns += [f"{_value(case, cell, 'cpu')} ({best})" if cell else "–", _value(case, row.get(FLOOR), "cpu")]
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) if len(lines) > 4 else ""


def _verdict(case: Case, cell: dict[str, Any]) -> str:
    median = cell.get("cpu_median")
    if median is None or case.limit is None:
        return ""
    if case.group == "conversion":
        return "met" if cell["bytes"] / median / 1e6 >= case.limit else "**missed**"
    return "met" if median <= case.limit else "**missed**"


def _agents(result: dict[str, Any], clock: str, title: str) -> str:
    peers = [name for name in result["peers"] if any(name in row for row in result["cases"].values())]
    lines = [f"### {title}", "", f"| case | {' | '.join(peers)} |", f"|---{'|---' * len(peers)}|"]
    for case in CASES:
        row = result["cases"].get(case.name)
        if row is None or case.group in ("conversion", "store"):
            continue
        cells = [_value(case, row.get(name), clock) + _ratio(row.get(name), clock) for name in peers]
        lines.append(f"| {case.title} | {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > 4 else ""


def _saved(result: dict[str, Any]) -> str:
    """Return the table of saved sessions."""
    lines = [
        "### Steps of saved sessions",
        "",
        "| peer | steps a second (wall) | CPU a step | bytes on disk a step |",
        "|---|---|---|---|",
    ]
    for case in CASES:
        if case.group != "store":
            continue
        for name, cell in result["cases"].get(case.name, {}).items():
            if "wall_median" not in cell:
                continue
            wall, cpu = cell["wall_median"] / STEPS, cell["cpu_median"] / STEPS
            disk = statistics.median(cell["disk"]) / STEPS
            columns = [
                f"{name}: {case.title.partition(', ')[2]}",
                f"{_digits(1 / wall)}" + _ratio(cell, "wall"),
                f"{_digits(cpu * 1e3)} ms" + _ratio(cell, "cpu"),
                _digits(disk),
            ]
            lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) if len(lines) > 4 else ""


def _conversions(result: dict[str, Any]) -> str:
    lines = [
        "### Conversion, megabytes of history JSON a second of CPU",
        "",
        "| work | turntree | pydantic or Python alone | doing | turntree is |",
        "|---|---|---|---|---|",
    ]
    for name, counterpart in COUNTERPARTS.items():
        case = BY_NAME[name]
        ours = result["cases"].get(name, {}).get(OURS, {})
        theirs = result["cases"].get(counterpart, {}).get("pydantic_ai", {})
        if not ours and not theirs:
            continue
        faster = "–"
        if ours.get("cpu") and theirs.get("cpu"):
            low, high = interval(ratio, theirs["cpu"], ours["cpu"])
            faster = f"{ratio(theirs['cpu'], ours['cpu']):.1f}× faster [{low:.1f}, {high:.1f}]"
        doing = _alone(counterpart)
        lines.append(
            f"| {case.title} | {_value(case, ours, 'cpu')} | {_value(case, theirs, 'cpu')} | {doing} | {faster} |"
        )
    return "\n".join(lines) if len(lines) > 4 else ""


def _alone(counterpart: str) -> str:
    """Return the description of a counterpart of pydantic."""
    return BY_NAME[counterpart].title.removeprefix("pydantic alone: ").removeprefix("Python alone: ")


def _value(case: Case, cell: dict[str, Any] | None, clock: str) -> str:
    """Return the median of a cell with its unit."""
    cell = cell or {}
    median = cell.get(f"{clock}_median")
    if median is None:
        return "failed" if "error" in cell else "–"
    if case.group == "conversion":
        return f"{cell['bytes'] / median / 1e6:.0f} MB/s"
    return f"{median * 1e6:.1f} µs" if median < 1e-4 else f"{_digits(median * 1e3)} ms"


def _digits(number: float) -> str:
    """Format a number with three significant digits, without an exponent, with separators of thousands."""
    if number >= 1000:
        return f"{number:,.0f}".replace(",", " ")
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _ratio(cell: dict[str, Any] | None, clock: str) -> str:
    if not cell or f"{clock}_ratio" not in cell:
        return ""
    low, high = (_digits(bound) for bound in cell[f"{clock}_ratio_interval"])
    return f" · {_digits(cell[f'{clock}_ratio'])}× [{low}, {high}]"


def _notes(result: dict[str, Any]) -> str:
    """Return the cases that are missing in the tables, with the reasons."""
    notes = [f"- {name}: {peer['error']}" for name, peer in result["peers"].items() if peer.get("error")]
    notes += [
        f"- {name}, {BY_NAME[case].title}: {reason}"
        for case, row in result["cases"].items()
        for name, cell in row.items()
        if (reason := cell.get("error") or cell.get("unsupported"))
    ]
    notes += [f"- {name}: {note}" for name, peer in result["peers"].items() for note in peer.get("notes", ())]
    return "### Not measured\n\n" + "\n".join(notes) if notes else ""
