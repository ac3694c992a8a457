"""Files and columns of many documents: order, errors, callbacks, compression, memory."""

import gzip
import io
import json
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import turntree
from turntree import thread_protocol as tp

if sys.version_info >= (3, 14):
    from compression import zstd as zstandard
else:
    import zstandard

ROOT = Path(__file__).resolve().parents[3]
HISTORIES = [path.read_text(encoding="utf-8").strip() for path in sorted((ROOT / "examples" / "data").glob("*.json"))]
THREADS = [tp.from_pydantic_ai(history).model_dump_json() for history in HISTORIES]
BROKEN = '[{"kind": "request", "parts": [{"content": "x"}]}]'


@pytest.fixture
def src(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(HISTORIES) + "\n", encoding="utf-8")
    return path


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_a_file_is_equal_after_a_conversion_in_both_directions(src, tmp_path):
    there, back = tmp_path / "there.jsonl", tmp_path / "back.jsonl"

    report = tp.convert_jsonl(src, there)
    tp.convert_jsonl(str(there), str(back), "thread-protocol", "pydantic-ai", 1)

    assert lines(there) == THREADS
    assert back.read_bytes() == src.read_bytes()
    assert (report.documents, report.failed, report.errors) == (len(HISTORIES), 0, [])
    assert (report.bytes_in, report.bytes_out) == (src.stat().st_size, there.stat().st_size)
    assert report.seconds > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back.jsonl", "in.jsonl", "there.jsonl"]


def test_convert_jsonl_writes_the_canonical_form_and_the_portable_profile(src):
    canonical, portable = io.BytesIO(), io.BytesIO()

    tp.convert_jsonl(src, canonical, to="thread-protocol-canonical")
    tp.convert_jsonl(src, portable, profile="portable")

    assert canonical.getvalue().splitlines() == [tp.from_pydantic_ai(h).canonical_json() for h in HISTORIES]
    expected = [tp.from_pydantic_ai(h, profile="portable").model_dump_json() for h in HISTORIES]
    assert portable.getvalue().decode().splitlines() == expected


def test_chats_of_the_vercel_ai_sdk_are_converted(src):
    chats, threads = io.BytesIO(), io.BytesIO()

    tp.convert_jsonl(src, chats, to="ui-messages")
    chats.seek(0)
    report = tp.convert_jsonl(chats, threads, from_=None)

    expected = [tp.from_pydantic_ai(h).to_ui_messages() for h in HISTORIES]
    assert [json.loads(line) for line in chats.getvalue().splitlines()] == expected
    assert report.documents == len(HISTORIES)
    back = [tp.Thread.model_validate_json(line) for line in threads.getvalue().splitlines()]
    assert back == [tp.from_ui_messages(messages) for messages in expected]


def test_the_format_is_detected_from_the_first_document(src, tmp_path):
    threads = tmp_path / "threads.jsonl"
    threads.write_text("\n".join(THREADS), encoding="utf-8")
    out = io.BytesIO()

    tp.convert_jsonl(threads, out, from_=None, to="pydantic-ai")

    assert out.getvalue() == src.read_bytes()


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_the_file_suffix_selects_the_compression(src, tmp_path, suffix):
    packed, there, back = tmp_path / f"p.jsonl.{suffix}", tmp_path / f"t.jsonl.{suffix}", tmp_path / "b.jsonl"
    module = {"gz": gzip, "zst": zstandard}[suffix]
    with module.open(packed, "wb") as file:
        file.write(src.read_bytes())

    tp.convert_jsonl(packed, there)
    tp.convert_jsonl(there, back, "thread-protocol", "pydantic-ai")

    with module.open(there, "rb") as file:
        assert file.read().decode().splitlines() == THREADS
    assert back.read_bytes() == src.read_bytes()


def test_file_objects_are_read_and_written(src):
    class Drip(io.RawIOBase):
        """Returns at most seven bytes for each read."""

        def __init__(self, data):
            self.data = io.BytesIO(data)

        def read(self, size=-1):
            return self.data.read(min(size, 7))

    out = io.BytesIO()

    tp.convert_jsonl(Drip(src.read_bytes()), out)

    assert out.getvalue().decode().splitlines() == THREADS


def test_a_failure_is_raised_with_line_and_location(tmp_path):
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text(f"{HISTORIES[0]}\n\n{BROKEN}\n", encoding="utf-8")

    with pytest.raises(turntree.ValidationError, match=r"in\.jsonl: line 3: /0/parts/0: .*part_kind") as caught:
        tp.convert_jsonl(path, out)

    (error,) = caught.value.errors()
    assert (error["loc"], error["pointer"]) == ((0, "parts", 0), "/0/parts/0")
    assert list(tmp_path.iterdir()) == [path]


def test_failures_are_skipped_and_reported():
    out = io.BytesIO()

    report = tp.convert_jsonl(io.BytesIO(f"{HISTORIES[0]}\n{BROKEN}\n[\n{HISTORIES[1]}".encode()), out, on_error="skip")

    assert out.getvalue().decode().splitlines() == THREADS[:2]
    assert [(issue.line, issue.rule) for issue in report.errors] == [(2, "invalid"), (3, "json_truncated")]
    assert (report.documents, report.failed) == (2, 2)
    assert str(report.errors[0]).startswith("line 2: /0/parts/0: ")


@pytest.mark.parametrize("answer", ["[1]", b"[1]", [1]])
def test_an_on_error_function_replaces_or_skips_a_failed_document(answer):
    seen, out = [], io.BytesIO()

    def repair(issue, text):
        seen.append((issue.line, text, threading.get_ident()))
        return answer if issue.line == 1 else None

    tp.convert_jsonl(io.BytesIO(f"{BROKEN}\n{HISTORIES[0]}\n{BROKEN}\n".encode()), out, on_error=repair, jobs=2)

    assert out.getvalue().decode().splitlines() == ["[1]", THREADS[0]]
    assert seen == [(line, BROKEN.encode(), threading.get_ident()) for line in (1, 3)]


def test_an_on_error_function_may_take_only_the_issue():
    issues, out = [], io.BytesIO()

    tp.convert_jsonl(io.BytesIO(f"{BROKEN}\n{HISTORIES[0]}\n".encode()), out, on_error=issues.append)
    tp.convert_jsonl(io.BytesIO(f"{BROKEN}\n".encode()), out, on_error=lambda issue: [issue.line])

    assert [issue.line for issue in issues] == [1]
    assert out.getvalue().decode().splitlines() == [THREADS[0], "[1]"]


def test_exceptions_of_callbacks_are_raised_unchanged(tmp_path):
    class Enough(Exception):
        pass

    reason = Enough("enough")

    def fail(*_):
        raise reason

    class Bad(io.RawIOBase):
        read = write = fail

    good = io.BytesIO((HISTORIES[0] + "\n").encode())
    for arguments in (
        {"src": io.BytesIO(b"[\n"), "dst": io.BytesIO(), "on_error": fail},
        {"src": good, "dst": io.BytesIO(), "progress": fail},
        {"src": Bad(), "dst": io.BytesIO()},
        {"src": io.BytesIO((HISTORIES[0] + "\n").encode()), "dst": Bad()},
        {"src": io.BytesIO(b"[\n"), "dst": tmp_path / "out", "on_error": fail},
    ):
        with pytest.raises(Enough) as caught:
            tp.convert_jsonl(**arguments)
        assert caught.value is reason
    assert list(tmp_path.iterdir()) == []


def test_progress_is_reported_and_other_threads_run(src):
    data, reports, beats = src.read_bytes() * 600, [], []
    stop = threading.Event()

    def beat():
        while not stop.is_set():
            beats.append(time.monotonic())
            time.sleep(0.001)  # the pace of the other thread

    watcher = threading.Thread(target=beat)
    watcher.start()
    report = tp.convert_jsonl(io.BytesIO(data), io.BytesIO(), progress=reports.append, jobs=2)
    stop.set()
    watcher.join()

    assert reports[-1].documents == report.documents == 600 * len(HISTORIES)
    assert [r.bytes_in for r in reports] == sorted(r.bytes_in for r in reports)
    assert len(beats) > 3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"from_": "yaml"}, ValueError, "from_ must be one of ui-messages, ui-stream, pydantic-ai, "),
        ({"to": "yaml"}, ValueError, "to must be one of ui-messages, ui-stream, pydantic-ai, "),
        ({"jobs": 0}, ValueError, "jobs must be at least 1"),
        ({"jobs": -1}, ValueError, "jobs must be at least 1, not -1"),
        ({"jobs": 1.5}, TypeError, "jobs must be an int, not float"),
        ({"jobs": True}, TypeError, "jobs must be an int, not bool"),
        ({"on_error": "ignore"}, ValueError, 'on_error must be "raise" or "skip"'),
        ({"on_error": 3}, TypeError, "on_error must be"),
        ({"progress": 3}, TypeError, "progress must be"),
        ({"profile": "tiny"}, ValueError, "profile must be"),
        ({"src": 3}, TypeError, "source must be a path or a binary file object"),
        ({"src": io.StringIO("x")}, TypeError, "open the file in binary mode"),
        ({"dst": 3}, TypeError, "target must be a path or a binary file object"),
        ({"src": "/nowhere/x.jsonl"}, FileNotFoundError, "/nowhere/x.jsonl"),
        ({"src": "/"}, OSError, "directory"),
        ({"dst": "/nowhere/x.jsonl"}, FileNotFoundError, "/nowhere/x.jsonl"),
        ({"src": io.BytesIO(b'{"a": 1}'), "from_": None}, ValueError, "the format cannot be detected"),
    ],
)
def test_wrong_arguments_are_refused(src, arguments, error, words):
    with pytest.raises(error, match=words):
        tp.convert_jsonl(**{"src": src, "dst": io.BytesIO(), **arguments})


def test_overwrite_false_keeps_an_existing_file(src, tmp_path):
    for name in ("there.jsonl", "there.jsonl.zst"):
        there = tmp_path / name
        there.write_text("mine")
        with pytest.raises(FileExistsError, match="exists already"):
            tp.convert_jsonl(src, there, overwrite=False)
        assert there.read_text() == "mine"
        tp.convert_jsonl(src, there)
        assert there.read_bytes() != b"mine"


def test_a_damaged_archive_raises_an_error(src, tmp_path):
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(src.read_bytes())[:-40])
    with pytest.raises(OSError, match=r"in\.jsonl\.gz: .*cut short"):
        tp.convert_jsonl(packed, io.BytesIO())

    packed.write_bytes(b"\x1f\x8bnonsense that is no deflate stream at all")
    with pytest.raises(OSError, match=r"in\.jsonl\.gz: .*damaged"):
        tp.convert_jsonl(packed, io.BytesIO())


def test_a_line_above_the_size_limit_fails():
    out = io.BytesIO()
    data = f"{HISTORIES[0]}\n[{' ' * 5_000_000}]\n".encode()

    report = tp.convert_jsonl(io.BytesIO(data), out, on_error="skip", max_document_bytes=100_000)

    assert out.getvalue().decode().splitlines() == THREADS[:1]
    assert [(issue.line, issue.rule) for issue in report.errors] == [(2, "limit_exceeded")]


def peak(source):
    """The peak memory of a new interpreter that runs the code, in bytes."""
    code = textwrap.dedent(source) + textwrap.dedent(
        """
        with open("/proc/self/status") as status:
            print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM")))
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc (Linux)")
@pytest.mark.timeout(300)
def test_memory_is_bounded_by_the_largest_document(tmp_path):
    path = tmp_path / "in.jsonl"
    message = json.loads(HISTORIES[0])
    many = [
        dict(message[0], parts=[dict(message[0]["parts"][0], content=f"{n} " + "word " * 400)]) for n in range(20_000)
    ]
    large = json.dumps(many, separators=(",", ":")).encode()
    convert = f"""
        from turntree import thread_protocol as tp
        tp.convert_jsonl({str(path)!r}, {str(tmp_path / "out.jsonl")!r}, jobs=2)
        """
    path.write_bytes((HISTORIES[0] + "\n").encode())
    fixed = peak(convert)

    path.write_bytes(large + b"\n" + (HISTORIES[0] + "\n").encode() * 2000)
    with_one = peak(convert)
    with path.open("wb") as file:
        for _ in range(8):
            file.write(large + b"\n")
    with_eight = peak(convert)

    slack = 40 << 20
    assert len(large) > 40_000_000
    assert with_one - fixed < 3 * len(large) + slack, f"{(with_one - fixed) / len(large):.2f} x"
    # Two jobs at once: one thread does not always reuse the memory that another one frees.
    assert with_eight - fixed < 2 * 4 * len(large) + slack, f"{(with_eight - fixed) / len(large):.2f} x"


# Columns


KINDS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()]


def texts(column):
    return [value if value is None or isinstance(value, str) else value.decode() for value in column.to_pylist()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_column_preserves_its_type_its_rows_and_its_nulls(kind):
    column = pa.array([HISTORIES[0], None, *HISTORIES[1:]]).cast(kind)

    converted = tp.convert_arrow(column)

    assert converted.type == kind
    converted.validate(full=True)
    assert texts(converted) == [THREADS[0], None, *THREADS[1:]]
    assert tp.convert_arrow(converted, "thread-protocol", "pydantic-ai").equals(column)


@pytest.mark.parametrize("kind", [*KINDS, "json", "dictionary", "dictionary of large"], ids=str)
def test_every_column_layout_is_converted_row_by_row(kind):
    rows = [None, *HISTORIES, None, HISTORIES[0], HISTORIES[0], None]
    if kind == "json":
        column = pa.array(rows, pa.json_(pa.large_string()))
    elif kind == "dictionary":
        column = pa.array(rows).dictionary_encode()
    elif kind == "dictionary of large":
        column = pa.array(rows, pa.large_binary()).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_binary()))
    else:
        column = pa.array(rows).cast(kind)
    expected = [None if row is None else tp.from_pydantic_ai(row).model_dump_json() for row in rows]
    empty, nulls = column.slice(0, 0), pa.nulls(9, column.type)

    for start, length in ((0, len(rows)), (1, 3), (5, 0), (7, 99), (3, 6)):
        converted = tp.convert_arrow(column.slice(start, length), jobs=2)
        converted.validate(full=True)
        assert converted.type == column.type
        assert texts(converted) == expected[start : start + length]
    assert tp.convert_arrow(empty, from_=None).equals(empty)
    assert texts(tp.convert_arrow(nulls, from_=None)) == [None] * 9
    chunked = pa.chunked_array([empty, column.slice(2), nulls, column.slice(0, 1)], column.type)
    converted = tp.convert_arrow(chunked)
    assert (converted.type, converted.num_chunks) == (column.type, 4)
    assert texts(converted) == [*expected[2:], *[None] * 9, None]
    none = tp.convert_arrow(pa.chunked_array([], column.type))
    assert (none.type, len(none)) == (column.type, 0)


def test_chunked_and_sliced_columns_are_converted():
    column = pa.chunked_array(
        [pa.array(["x", *HISTORIES, "x"]).slice(1, len(HISTORIES)), pa.array([], pa.string()), pa.array(HISTORIES[:2])]
    )

    converted = tp.convert_arrow(column)

    assert isinstance(converted, pa.ChunkedArray)
    assert [len(chunk) for chunk in converted.chunks] == [len(HISTORIES), 0, 2]
    assert texts(converted) == [*THREADS, *THREADS[:2]]
    encoded = pa.array([HISTORIES[0], HISTORIES[1], HISTORIES[0]]).dictionary_encode()
    again = tp.convert_arrow(encoded)
    assert again.type == encoded.type
    assert again.to_pylist() == [THREADS[0], THREADS[1], THREADS[0]]


def test_a_slice_remains_valid_after_its_column_is_deleted():
    column = tp.convert_arrow(pa.array(HISTORIES * 50))
    part = column.slice(3, 2)
    del column

    assert texts(part) == (THREADS * 2)[3:5]


def test_a_failed_row_raises_or_becomes_null():
    column = pa.chunked_array([[HISTORIES[0], "["], [None, BROKEN, HISTORIES[1]]])
    issues, reports = [], []

    with pytest.raises(turntree.ValidationError, match="row 1: "):
        tp.convert_arrow(column)
    nulls = tp.convert_arrow(column, on_error="null", progress=reports.append)
    told = tp.convert_arrow(column, on_error=issues.append)

    assert nulls.to_pylist() == told.to_pylist() == [THREADS[0], None, None, None, THREADS[1]]
    assert [(issue.row, issue.rule) for issue in issues] == [(1, "json_truncated"), (3, "invalid")]
    assert (reports[-1].documents, reports[-1].failed) == (2, 2)
    assert [issue.row for issue in reports[-1].errors] == [1, 3]


def test_any_object_with_an_arrow_stream_is_accepted():
    class Series:
        def __init__(self, column):
            self.column = column

        def __arrow_c_stream__(self, requested_schema=None):
            return self.column.__arrow_c_stream__(requested_schema)

    converted = tp.convert_arrow(Series(pa.chunked_array([HISTORIES])))

    assert converted.to_pylist() == THREADS


@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        (["x"], TypeError, "pyarrow Array or ChunkedArray, not list"),
        (pa.array([1]), TypeError, "strings or binary, not int64"),
        (pa.array([["x"]]), TypeError, "strings or binary, not list"),
    ],
)
def test_columns_of_other_types_are_refused(column, error, words):
    with pytest.raises(error, match=words):
        tp.convert_arrow(column)
    with pytest.raises(ValueError, match="on_error must be"):
        tp.convert_arrow(pa.array([""]), on_error="skip")


def test_capsules_with_another_name_are_refused():
    from turntree._core import _convert_column

    options = {
        "from_": None,
        "to": "thread-protocol",
        "jobs": 1,
        "on_error": "raise",
        "profile": "full",
        "first_row": 0,
    }
    schema, array = pa.array([1, 2]).__arrow_c_array__()
    with pytest.raises(TypeError, match='not "l"'):
        _convert_column(schema, array, **options)
    with pytest.raises(TypeError, match="capsules"):
        _convert_column(1, 2, **options)
    with pytest.raises(ValueError, match="incorrect name|called with"):
        _convert_column(array, schema, **options)
    pa.Array._import_from_c_capsule(*(capsules := pa.array(["[]"]).__arrow_c_array__()))
    with pytest.raises(ValueError, match="released"):
        _convert_column(*capsules, **options)


def test_capsules_belong_to_the_conversion_before_it_calls_the_application():
    from turntree._core import _convert_column

    rows = ["not a history", *HISTORIES * 20]
    schema, array = pa.array(rows).__arrow_c_array__()
    refused = []

    def steal(issue, text):
        with pytest.raises(pa.ArrowInvalid) as caught:
            pa.Array._import_from_c_capsule(schema, array)
        refused.append((issue.row, str(caught.value)))

    options = {"from_": "pydantic-ai", "to": "thread-protocol", "jobs": 1, "profile": "full", "first_row": 0}
    column, report = _convert_column(schema, array, on_error=steal, **options)

    assert [row for row, _ in refused] == [0]
    assert "released" in refused[0][1]
    assert (report.documents, report.failed) == (len(rows) - 1, 1)
    assert texts(pa.array(column)) == [None, *THREADS * 20]


def test_without_pyarrow_and_zstandard_the_error_names_the_extra():
    code = """
        import sys
        sys.modules["pyarrow"] = sys.modules["zstandard"] = sys.modules["compression.zstd"] = None
        from turntree import thread_protocol as tp
        for call in (lambda: tp.convert_arrow([]), lambda: tp.convert_jsonl("x.jsonl.zst", "y")):
            try:
                call()
            except ImportError as error:
                print(error)
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)

    assert "turntree[arrow]" in done.stdout
    assert "turntree[zstd]" in done.stdout


def test_streams_of_the_vercel_ai_sdk_are_converted(src, tmp_path):
    streams, threads = io.BytesIO(), io.BytesIO()

    tp.convert_jsonl(src, streams, to="ui-stream")
    streams.seek(0)
    report = tp.convert_jsonl(streams, threads, from_=None)

    expected = [list(tp.from_pydantic_ai(h).to_ui_stream()) for h in HISTORIES]
    assert [json.loads(line) for line in streams.getvalue().splitlines()] == expected
    assert report.documents == len(HISTORIES)
    back = [tp.Thread.model_validate_json(line) for line in threads.getvalue().splitlines()]
    assert back == [tp.from_ui_stream(chunks) for chunks in expected]
