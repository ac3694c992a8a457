"""Compares a full export, its downgrade, the report of the changes, and what an older version dumps."""

from collections.abc import Iterator
from typing import Any

# Values that a missing member has, beside `null`.
DEFAULTS: dict[str, tuple[Any, ...]] = {
    "state": ("complete",),
    "scope": ("conversation",),
    "outcome": ("success",),
    "ttl": ("5m",),
    "top_level": (False,),
    "details": ({},),
    "content_file_digests": ([],),
}

# Other names of members in older versions.
ALIASES = {"added", "vendor_id", "vendor_details", "request_tokens", "response_tokens", "total_tokens", "requests"}

MISSING = object()


def means_nothing(key: str, value: Any, parent: str = "") -> bool:
    if key == "media_type":
        return False  # files always have one, `null` if it is unknown
    if value is None or value in DEFAULTS.get(key, ()):
        return True
    return parent == "usage" and value in (0, 0.0)


def joined(pointer: str, key: str | int) -> str:
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


class Comparison:
    """The differences between an export and its downgrade, against the report."""

    def __init__(self, changes: list[tuple[str, str]]) -> None:
        self.reported = dict(changes)
        self.used: set[str] = set()
        self.problems: list[str] = []
        if len(self.reported) != len(changes):
            self.problems.append(f"reported twice: {changes}")

    def run(self, export: Any, older: Any) -> list[str]:
        self.values(export, older, "")
        unused = [pointer for pointer in self.reported if pointer not in self.used]
        return [*self.problems, *(f"{pointer}: reported, but not changed" for pointer in unused)]

    def values(self, export: Any, older: Any, pointer: str) -> None:
        if isinstance(export, dict) and isinstance(older, dict):
            self.objects(export, older, pointer)
        elif isinstance(export, list) and isinstance(older, list):
            self.lists(export, older, pointer)
        elif export != older:
            if pointer in self.reported:
                self.used.add(pointer)
            else:
                self.problems.append(f"{pointer}: {export!r} became {older!r} without a report")

    def objects(self, export: dict[str, Any], older: dict[str, Any], pointer: str) -> None:
        renamed = False
        for key, value in export.items():
            place = joined(pointer, key)
            if key in older:
                self.values(value, older[key], place)
            elif place in self.reported:
                self.used.add(place)
                renamed |= self.reported[place] == "rewritten"
            elif not means_nothing(key, value, pointer.rpartition("/")[2]):
                self.problems.append(f"{place}: {value!r} was dropped without a report")
        for key in older.keys() - export.keys():
            if self.reported.get(pointer) == "rewritten":
                self.used.add(pointer)
            elif older[key] is not None and not renamed:
                self.problems.append(f"{joined(pointer, key)}: {older[key]!r} was added without a report")

    def lists(self, export: list[Any], older: list[Any], pointer: str) -> None:
        index = 0
        for number, value in enumerate(export):
            place = joined(pointer, number)
            change = self.reported.get(place)
            if change == "dropped":
                self.used.add(place)
            elif change == "rewritten" and not same_kind(value, older[index]):
                count = self.replacements(value, place)
                self.replaced(value, older[index : index + count], place)
                index += count
            elif index < len(older):
                self.values(value, older[index], place)
                index += 1
            else:
                self.problems.append(f"{place}: was dropped without a report")
        if index != len(older):
            self.problems.append(f"{pointer}: {len(older)} items instead of {index}")

    def replacements(self, value: dict[str, Any], pointer: str) -> int:
        """The number of parts that replace a part: speech of the model becomes text and a file."""
        if value.get("part_kind") != "speech" or value["speaker"] != "assistant":
            return 1
        has_file = bool(value.get("audio")) and f"{pointer}/audio" not in self.reported
        return bool(value.get("transcript")) + has_file

    def replaced(self, value: dict[str, Any], older: list[Any], pointer: str) -> None:
        """Members of a replaced object are in the replacement, or the report has them."""
        self.used.add(pointer)
        if not older:
            self.problems.append(f"{pointer}: has no replacement")
        words = set(leaves(older))
        for key, member in value.items():
            place = joined(pointer, key)
            if place in self.reported:
                self.used.add(place)
                lost = set(leaves(member)) - words
                if not lost and not isinstance(member, (dict, list)):
                    self.problems.append(f"{place}: reported, but {member!r} is in the replacement")
            elif not (means_nothing(key, member) or key in ("part_kind", "kind", "outcome", "speaker")):
                lost = set(leaves(member)) - words
                text = "".join(word for word in words if isinstance(word, str))
                if any(str(word) not in text for word in lost if word is not None):
                    self.problems.append(f"{place}: {member!r} is not in the replacement {older}")


def same_kind(export: Any, older: Any) -> bool:
    if not isinstance(older, dict):
        return False
    return all(export.get(key) == older.get(key) for key in ("kind", "part_kind"))


def leaves(value: Any) -> Iterator[Any]:
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            todo.extend(one.values())
        elif isinstance(one, list):
            todo.extend(one)
        elif one not in ("", None):
            yield one


def unexplained(export: Any, older: Any, changes: list[tuple[str, str]]) -> list[str]:
    """Differences that the report does not have, and changes of the report that are not differences."""
    return Comparison(changes).run(export, older)


def losses(written: Any, dumped: Any, canonical: Any = MISSING, pointer: str = "") -> list[str]:
    """What a version loses of a history that it loads.

    `canonical` is what the newest version dumps: a form that all versions normalize is not a loss.
    """
    if dumped == canonical:
        return []
    if isinstance(written, dict) and isinstance(dumped, dict):
        problems: list[str] = []
        of_canonical = canonical if isinstance(canonical, dict) else {}
        for key, value in written.items():
            place = joined(pointer, key)
            if key in dumped:
                problems += losses(value, dumped[key], of_canonical.get(key, MISSING), place)
            elif key in ALIASES or (of_canonical and key not in of_canonical):
                continue
            elif not means_nothing(key, value, pointer.rpartition("/")[2]):
                problems.append(f"{place}: {value!r} is lost")
        return problems
    if isinstance(written, list) and isinstance(dumped, list) and len(written) == len(dumped):
        of_list = canonical if isinstance(canonical, list) and len(canonical) == len(written) else []
        pairs = zip(written, dumped, strict=True)
        return [
            problem
            for index, (one, other) in enumerate(pairs)
            for problem in losses(one, other, of_list[index] if of_list else MISSING, joined(pointer, index))
        ]
    return [] if written == dumped else [f"{pointer}: {written!r} became {dumped!r}"]


def reread_urls(history: Any) -> dict[str, str]:
    """The pointers of the dicts with a "url" in returns of tools, and their URLs, which 1.50.0 reads as images."""
    found: dict[str, str] = {}
    waiting = [
        (f"/{place}/parts/{number}/content", part.get("content"))
        for place, message in enumerate(history)
        for number, part in enumerate(message["parts"])
        if part["part_kind"] in ("tool-return", "builtin-tool-return")
    ]
    for pointer, value in waiting:  # It grows.
        if isinstance(value, dict) and isinstance(value.get("url"), str) and "kind" not in value:
            found[pointer] = value["url"]
        items = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else [])
        waiting += [(joined(pointer, key), item) for key, item in items]
    return found


def is_reread_url(problem: str, history: Any) -> bool:
    """Whether 1.50.0 has this problem because it reads a dict with a "url" as an ImageUrl."""
    urls = reread_urls(history)
    refused = [f"Could not infer media type from image URL: {url}"[:200] for url in urls.values()]
    if problem.startswith("dump: "):
        return any(reason in problem for reason in refused)
    return any(problem.startswith(f"{pointer}/") and problem.endswith(" is lost") for pointer in urls)
