"""Every public parser says in plain words why it refuses JSON: the place, the rule and the remedy."""

import inspect
import re
import subprocess
import sys

import pytest

import turntree
from turntree import CorruptDataError, ValidationError, agent, store, upp
from turntree import thread_protocol as tp
from turntree.upp import scripted

# Words of the JSON library for developers of Rust, and a position before the first column.
JARGON = re.compile(
    r"\bEOF\b|invalid (type|value|length)|missing field|unknown variant|expected (struct|ident|value$)|\bsequence\b"
    r"|\bmap\b|\bunit\b|\bu(8|16|32|64)\b|trailing (comma|char)|recursion limit|column 0\b|Versioned|Json\b|`"
)

DOCUMENTS = {
    "empty": ("", "the text is empty"),
    "blank": (" \n\n", "the text is empty"),
    "truncated in a string": ('{"id": "x', "the JSON ends in a string at line 1 column 9; check that"),
    "no JSON": ("nope", "invalid JSON at line 1 column 2: expected a value"),
    "quotes": ("{'a': 1}", "invalid JSON at line 1 column 2: expected a key in double quotes"),
    "comma": ('{"a": 1,}', "invalid JSON at line 1 column 9: a comma before the closing bracket; remove it"),
    "not UTF-8": (b"\xff\xfe", "invalid UTF-8 at byte 0"),
    "a number": ("17", "got the number 17"),
    "a text": ('"a secret text"', "got a string"),
    "null": ("null", "got null"),
    "a truth value": ("true", "got true"),
}

AGENT = agent(model=scripted([]))


def classes():
    for module in (turntree, upp, tp):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and hasattr(value, "from_json"):
                yield pytest.param(value, id=f"{module.__name__}.{name}")


def refusal(parse, document):
    with pytest.raises(ValidationError) as caught:
        parse(document)
    message = str(caught.value)
    assert not JARGON.search(message), message
    assert "secret" not in message
    return message


@pytest.mark.parametrize("cls", list(classes()))
@pytest.mark.parametrize("method", ["from_json", "model_validate_json"])
def test_classes_refuse_broken_json_in_plain_words(cls, method):
    if not hasattr(cls, method):
        assert cls is turntree.Session
        return

    def parse(document):
        return getattr(cls, method)(document, *[AGENT][: cls is turntree.Session])

    for document, words in DOCUMENTS.values():
        message = refusal(parse, document)
        # Some classes are arrays in JSON, and unions are read from raw values.
        is_syntax = words.startswith(("the text", "invalid", "the JSON"))
        assert words in message if is_syntax else re.search(r"expected .*, got ", message), message
    assert re.search("expected an? .*, got an array", refusal(parse, "[]"))


def test_classes_name_missing_members_and_remedies():
    for cls in (turntree.Checkpoint, turntree.ThreadTree, upp.Message, upp.Text, tp.Thread, tp.UserMessageAction):
        assert re.search('^"[a-zA-Z_]+" is missing; add it$', refusal(cls.model_validate_json, "{}"))


SURROGATE = '{"secret": "\ud800"}'
SURROGATE_RULE = 'the character at index 12 is a lone surrogate; JSON is UTF-8: decode the source with errors="replace"'


@pytest.mark.parametrize("cls", list(classes()))
@pytest.mark.parametrize("method", ["from_json", "model_validate_json"])
def test_classes_refuse_lone_surrogates_as_invalid_utf8(cls, method):
    if not hasattr(cls, method):
        assert cls is turntree.Session
        return

    with pytest.raises(ValidationError) as caught:
        getattr(cls, method)(SURROGATE, *[AGENT][: cls is turntree.Session])

    assert str(caught.value) == SURROGATE_RULE
    assert caught.value.errors()[0]["type"] == "invalid_utf8"


@pytest.mark.parametrize(
    "parse", [tp.from_pydantic_ai, upp.from_pydantic_ai, tp.canonicalize_pydantic_ai, tp.pydantic_ai_version]
)
def test_conversions_refuse_lone_surrogates_as_invalid_utf8(parse):
    assert refusal(parse, SURROGATE) == SURROGATE_RULE


async def test_stores_refuse_lone_surrogates_as_invalid_utf8():
    class Damaged:
        def save(self, key, data): ...

        def load(self, key):
            return SURROGATE

        def delete(self, key): ...

    async with store.memory() as saved:
        with pytest.raises(ValidationError, match=re.escape(SURROGATE_RULE)):
            await saved.save("s", SURROGATE)
    with pytest.raises(CorruptDataError, match=re.escape(SURROGATE_RULE)):
        await turntree.Session.load(Damaged(), "s", AGENT)


LISTS = [tp.from_pydantic_ai, upp.from_pydantic_ai, tp.from_ui_messages]


@pytest.mark.parametrize("parse", LISTS, ids=lambda parse: f"{parse.__module__}.{parse.__name__}")
def test_conversions_refuse_broken_json_in_plain_words(parse):
    for document, words in DOCUMENTS.values():
        if isinstance(document, str) and document.startswith("{"):
            document = f"[{document}"
            words = re.sub(r"column \d+", lambda found: f"column {int(found[0][7:]) + 1}", words)
        assert words in refusal(parse, document)
        if isinstance(document, str):
            assert words in refusal(parse, document.encode())
    assert re.search("expected (an array|a list).*, got an object", refusal(parse, "{}"))
    assert re.search("^/0: expected .*, got the number 1", refusal(parse, "[1]"))
    assert re.search(r"^/0/parts: expected .*, got the number 5", refusal(parse, '[{"kind":"request","parts":5}]'))


@pytest.mark.parametrize("command", ["show", "tree", "validate", "convert"])
def test_commands_refuse_broken_files_in_plain_words(tmp_path, command):
    files = []
    for name, (document, words) in DOCUMENTS.items():
        path = tmp_path / f"{name}.json"
        path.write_bytes(document if isinstance(document, bytes) else document.encode())
        files.append((path, words))
    options = ["-o", tmp_path / "out"] if command == "convert" else []

    for path, words in files:
        done = subprocess.run(
            [sys.executable, "-m", "turntree", command, *options, path], capture_output=True, check=False
        )
        text = (done.stdout + done.stderr).decode()

        assert done.returncode == 1, text
        assert path.name in text
        assert not JARGON.search(text), text
        if words == "the text is empty":
            assert "is empty" in text
        elif words.startswith(("the JSON", "invalid")):
            # The parser that ignores values refuses the comma as a key.
            assert words.split(":")[0] in text
        else:
            assert "not a document that turntree shows" in text or "the format cannot be detected" in text
