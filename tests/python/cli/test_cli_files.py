"""Unusual files: odd names, links, devices, full disks, damaged archives, and the files that remain after an error."""

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shell_command import BROKEN, COMMAND, HISTORIES, THREADS, fails, turntree

import turntree as package
from turntree import thread_protocol as tp

if sys.version_info >= (3, 14):
    from compression import zstd as zstandard
else:
    import zstandard

pytestmark = [
    pytest.mark.skipif(not COMMAND.exists(), reason="the wheel is not installed beside this interpreter"),
    pytest.mark.skipif(sys.platform == "win32", reason="links, devices and limits of POSIX"),
]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def limited(size, *arguments):
    """Run the command with a limit of the file size, which simulates a full disk."""
    code = (
        f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); os.execv(sys.argv[1], "
        "sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, str(COMMAND), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=50)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(HISTORIES) + "\n", encoding="utf-8")
    return path


# Output


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst"])
def test_a_full_disk_leaves_no_file_and_the_error_names_the_file(source, tmp_path, name):
    done = limited(1000, "convert", source, "-o", tmp_path / name)

    said = done.stderr.decode()
    assert done.returncode == 1, said
    assert "File too large" in said
    assert "Traceback" not in said
    assert names(tmp_path) == ["in.jsonl"]
    if not name.endswith("zst"):
        assert f"{tmp_path / name}: " in said


def test_a_full_disk_during_a_directory_keeps_the_complete_files(tmp_path):
    (tmp_path / "in").mkdir()
    short, long = HISTORIES[2], json.dumps(json.loads(HISTORIES[2]) * 40)
    for name, text in (("a", short), ("b", long), ("c", short)):
        (tmp_path / "in" / f"{name}.json").write_text(text, encoding="utf-8")

    done = limited(20_000, "convert", tmp_path / "in", "-o", tmp_path / "out", "--on-error", "skip")

    assert done.returncode == 1
    assert f"{tmp_path / 'out' / 'b.json'}: File too large" in done.stderr.decode()
    assert names(tmp_path / "out") == ["a.json", "c.json"]


def test_a_full_disk_leaves_no_parquet_file(tmp_path):
    table = pa.table({"history": [history + " " * n for n in range(300) for history in HISTORIES]})
    pq.write_table(table, tmp_path / "in.parquet")

    done = limited(3000, "convert", tmp_path / "in.parquet", "--column", "history", "-o", tmp_path / "out.parquet")

    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert names(tmp_path) == ["in.parquet"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_standard_output_gives_a_message_of_one_line(source):
    for command in ("convert", "show"):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run([str(COMMAND), command, str(source)], stdout=full, stderr=-1, timeout=50)

        said = done.stderr.decode()
        assert (done.returncode, said.count("\n")) == (1, 1), said
        assert "No space left on device" in said


def test_output_to_a_pipe_or_a_device_does_not_replace_it(source, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    for options in ([], ["--force"]):
        reader = threading.Thread(target=lambda: got.append(pipe.read_text(encoding="utf-8")))
        reader.start()
        done = turntree("convert", source, "-o", pipe, *options)
        reader.join(20)

        assert (done.returncode, done.stderr) == (0, b"")
        assert got.pop().splitlines() == THREADS
        assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["in.jsonl", "pipe"]


def test_a_replaced_file_keeps_its_permissions(source, tmp_path):
    target = tmp_path / "private.jsonl"
    target.write_text("old")
    target.chmod(0o600)

    assert turntree("convert", source, "-o", target, "--force").returncode == 0

    assert target.read_text(encoding="utf-8").splitlines() == THREADS
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_output_to_a_symbolic_link_replaces_its_target(source, tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "x.jsonl", tmp_path / "latest.jsonl"
    real.write_text("old")
    link.symlink_to(real)

    fails(2, "exists already", "convert", source, "-o", link)
    assert turntree("convert", source, "-o", link, "--force").returncode == 0

    assert link.is_symlink()
    assert real.read_text(encoding="utf-8").splitlines() == THREADS
    assert names(tmp_path / "real") == ["x.jsonl"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_file_can_be_converted_in_place(source, tmp_path, suffix):
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[suffix]
    path = tmp_path / f"x.jsonl{suffix}"
    path.write_bytes(pack(source.read_bytes()))

    fails(2, "--force", "convert", path, "-o", path)
    assert turntree("convert", path, "-o", path, "--force").returncode == 0

    back = turntree("convert", path, "--to", "pydantic-ai")
    assert back.stdout == source.read_bytes()
    path.write_bytes(pack(source.read_bytes()[:-50]))
    before = path.read_bytes()
    fails(1, "line 7", "convert", path, "-o", path, "--force")
    assert path.read_bytes() == before
    assert names(tmp_path) == sorted(["in.jsonl", path.name])


def test_no_sync_gives_the_same_result(source, tmp_path):
    for name in ("a.jsonl", "a.jsonl.zst"):
        assert turntree("convert", source, "-o", tmp_path / name, "--no-sync").returncode == 0
    back = turntree("convert", tmp_path / "a.jsonl.zst", "--to", "pydantic-ai")

    assert (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines() == THREADS
    assert back.stdout == source.read_bytes()


# Input


def test_output_inside_the_input_is_not_read_again(tmp_path):
    (tmp_path / "a.json").write_text(HISTORIES[0], encoding="utf-8")
    for _ in range(2):
        done = turntree("convert", tmp_path, "-o", tmp_path / "out", "--force")
        assert (done.returncode, done.stderr) == (0, b"")

    found = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*.json"))]
    assert found == ["a.json", "out/a.json"]


def test_symbolic_links_are_read_and_their_cycles_are_not_followed(tmp_path):
    inside = tmp_path / "in"
    (inside / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere.json").write_text(HISTORIES[0], encoding="utf-8")
    (inside / "link.json").symlink_to(tmp_path / "elsewhere.json")
    (inside / "deep" / "up").symlink_to(inside)
    os.mkfifo(inside / "pipe.json")

    done = turntree("convert", inside, "-o", tmp_path / "out")

    assert (done.returncode, done.stderr) == (0, b"")
    assert [str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")] == ["link.json"]
    (inside / "broken.json").symlink_to(tmp_path / "nowhere.json")
    fails(1, "broken.json: No such file", "convert", inside, "-o", tmp_path / "again")
    (inside / "round.json").symlink_to(inside / "round.json")
    fails(1, "Too many levels", "convert", inside / "round.json")


def test_a_directory_that_cannot_be_read_is_an_error(tmp_path):
    shut = tmp_path / "in" / "shut"
    shut.mkdir(parents=True)
    (tmp_path / "in" / "a.json").write_text(HISTORIES[0], encoding="utf-8")
    shut.chmod(0)
    root = os.geteuid() == 0
    if root and shutil.which("setpriv") is None:
        pytest.skip("permissions do not bind root, and there is no setpriv to take its powers away")
    start = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if root else []
    try:
        done = subprocess.run([*start, str(COMMAND), "validate", "in"], cwd=tmp_path, capture_output=True, timeout=50)
    finally:
        shut.chmod(0o700)

    said = done.stderr.decode()
    assert done.returncode == 1, said
    assert "in/shut: Permission denied" in said
    assert "Traceback" not in said


ODD = [
    "with space.json",
    "-dash.json",
    "line\nend.json",
    "\U0001f333.json",
    "quo'te\".json",
    "x" * 245 + ".json",
    os.fsdecode(b"not\xffutf8.json"),
]


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
def test_unusual_file_names_are_converted(tmp_path, name):
    inside, out = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    try:
        (inside / name).write_text(HISTORIES[0], encoding="utf-8")
    except (OSError, UnicodeError) as error:
        pytest.skip(f"this file system does not take the name: {error}")
    (inside / "other.json").write_text(HISTORIES[1], encoding="utf-8")

    there = turntree("convert", inside, "-o", out)
    alone = turntree("convert", inside / name, "-o", tmp_path / "alone.json.zst")
    lines = turntree("convert", inside / name, "--documents", "lines", "-o", tmp_path / name)

    assert [done.returncode for done in (there, alone, lines)] == [0, 0, 0], [there, alone, lines]
    assert names(out) == sorted([name, "other.json"])
    assert (out / name).read_text(encoding="utf-8") == THREADS[0] + "\n" == (tmp_path / name).read_text("utf-8")
    (inside / name).write_text("[", encoding="utf-8")
    for command in (["validate", inside], ["validate", "--json", inside / name], ["show", inside / name]):
        done = turntree(*command)
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr, done.stderr
        assert (done.stdout + done.stderr).decode().count("\n") <= 2


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        (b"", 0),
        (b"\n\n", 0),
        (b"\xef\xbb\xbf", 0),
        (b"\xef\xbb\xbf%(one)s\n%(two)s\n", 2),
        (b"%(one)s\r\n\r\n%(two)s\r\n", 2),
        (b"%(one)s\n%(two)s", 2),
        (b"  %(one)s  \n\t%(two)s\t", 2),
        (b"%(one)s\n\xef\xbb\xbf%(two)s\n", 2),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstandard"])
def test_blank_lines_and_line_endings_are_accepted(tmp_path, text, documents, pack):
    text = text.replace(b"%(one)s", HISTORIES[0].encode()).replace(b"%(two)s", HISTORIES[1].encode())
    path = tmp_path / ("in.jsonl" + {bytes: "", gzip.compress: ".gz", zstandard.compress: ".zst"}[pack])
    path.write_bytes(pack(text))

    done = turntree("convert", path)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == THREADS[:documents]


def test_invalid_json_bytes_are_reported_with_their_line(tmp_path):
    path = tmp_path / "in.jsonl"
    for middle in (b"\0" * 100, b'[{"kind": "req\0uest"}]', b"\xff\xfe[\0", HISTORIES[0].encode("utf-16")):
        path.write_bytes(HISTORIES[0].encode() + b"\n" + middle.replace(b"\n", b"") + b"\n" + HISTORIES[1].encode())

        done = fails(1, "in.jsonl: line 2: ", "convert", path, "--on-error", "skip")

        assert done.stdout.decode().splitlines() == THREADS[:2]


@pytest.mark.parametrize("text", [b"", b"\n \n"], ids=["empty", "white space"])
@pytest.mark.parametrize("command", ["convert", "validate", "show", "tree"])
def test_standard_input_without_a_document_is_an_error(command, text, tmp_path):
    output = tmp_path / "out.json"

    fails(1, "standard input: the text is empty", command, stdin=text)
    if command == "convert":
        fails(1, "standard input: the text is empty", command, "-o", output, stdin=text)
        assert not output.exists()


@pytest.mark.parametrize("command", ["convert", "validate"])
def test_standard_input_may_have_no_lines(command):
    assert turntree(command, "--documents", "lines", stdin=b"").returncode == 0


def test_an_empty_json_file_is_an_error(tmp_path):
    (tmp_path / "in").mkdir()
    empty, full = tmp_path / "in" / "a.json", tmp_path / "in" / "b.json"
    full.write_text(HISTORIES[0], encoding="utf-8")
    for text in (b"", b"\xef\xbb\xbf", b" \n"):
        empty.write_bytes(text)

        fails(1, "a.json: the file is empty", "convert", empty, "-o", tmp_path / "x.json")
        fails(1, "a.json: the file is empty", "convert", tmp_path / "in", "-o", tmp_path / "out", "--force")
    assert turntree("convert", "--documents", "auto", stdin=b"").returncode == 0
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("command", ["convert", "validate", "show"])
def test_archives_are_read_to_their_end_or_reported_as_damaged(tmp_path, suffix, command):
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}[suffix]
    path = tmp_path / f"in.jsonl{suffix}"
    one, two = ((HISTORIES[n] + "\n").encode() for n in (0, 1))
    packed = pack((one + two) * 50)

    path.write_bytes(pack(one) + pack(b"") + pack(two))
    whole = turntree(command, path)
    assert whole.returncode == 0, whole.stderr
    if command == "convert":
        assert whole.stdout.decode().splitlines() == THREADS[:2]
    for data, words in (
        (packed[: len(packed) // 2], "cut short"),
        (packed[:-1], "cut short"),
        (packed[:60] + b"\xff" * 40 + packed[100:], "damaged"),
        (pack(one) + b"more", ""),
    ):
        path.write_bytes(data)
        done = turntree(command, path)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == 1, said
        assert str(path) in said
        assert words in said or "damaged or cut short" in said
        assert "Traceback" not in said
        assert "b'" not in said


def test_the_memory_for_a_long_line_is_proportional_to_its_length(tmp_path):
    long = json.loads(HISTORIES[2])
    long[0]["parts"][0]["content"] = "word " * 2_000_000
    path = tmp_path / "in.jsonl"
    path.write_text(f"{HISTORIES[0]}\n{json.dumps(long)}\n{HISTORIES[1]}\n", encoding="utf-8")

    done = turntree("convert", path, "-o", tmp_path / "out.jsonl")

    assert (done.returncode, done.stderr) == (0, b"")
    out = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert (out[0], out[2]) == (THREADS[0], THREADS[1])
    assert out[1] == tp.from_pydantic_ai(json.dumps(long)).model_dump_json()


def test_show_does_not_read_the_lines_after_the_chosen_line(tmp_path):
    path = tmp_path / "in.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.write(HISTORIES[1] + "\n" + HISTORIES[2] + "\n")
        for _ in range(60):
            file.write(" " * 1_000_000 + "\n")
    code = (
        "import resource, sys; from turntree._cli import main; main(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == 'darwin' else 1))"
    )

    def peak(*arguments):
        done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, check=True)
        return done.stdout.decode().splitlines()

    alone = tmp_path / "one.jsonl"
    alone.write_text(HISTORIES[2] + "\n", encoding="utf-8")
    for line in ("2", "62"):
        shown = peak("show", path, "--line", line) if line == "2" else turntree("show", path, "--line", line)
        if line == "2":
            assert shown[:-1] == turntree("show", alone).stdout.decode().splitlines()
            assert int(shown[-1]) - int(peak("show", alone)[-1]) < 20_000
        else:
            assert b"there is no document in line 62" in shown.stderr


def test_validate_prints_the_files_in_order(tmp_path):
    for number in range(30):
        text = BROKEN if number % 10 == 3 else HISTORIES[number % len(HISTORIES)]
        (tmp_path / f"{number:02}.json").write_text(text, encoding="utf-8")
    (tmp_path / "25.jsonl").write_text(f"{HISTORIES[0]}\n[\n", encoding="utf-8")

    done = fails(1, "32 documents, 4 with errors", "validate", tmp_path, "--jobs", "3")

    said = [line.strip() for line in done.stdout.decode().splitlines() if str(tmp_path) in line]
    files = [line[len(str(tmp_path)) + 1 :].split(":")[0] for line in said]
    assert files == ["03.json", "13.json", "23.json", "25.jsonl"]


def test_a_table_of_large_documents_is_read_in_small_batches(tmp_path):
    large = json.loads(HISTORIES[2])
    large[0]["parts"][0]["content"] = "".join(f"word {n} " for n in range(600_000))
    text = json.dumps(large)
    pq.write_table(pa.table({"history": [f"{text}{' ' * n}" for n in range(12)]}), tmp_path / "in.parquet")

    done = turntree("convert", tmp_path / "in.parquet", "--column", "history", "-o", tmp_path / "out.parquet")

    assert (done.returncode, done.stderr) == (0, b"")
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_row_groups > 1
    written = pq.read_table(tmp_path / "out.parquet")["history"].to_pylist()
    assert written == [tp.from_pydantic_ai(text).model_dump_json()] * 12


def test_convert_jsonl_raises_errors_and_leaves_no_file(tmp_path):
    path = tmp_path / "in.jsonl.zst"
    path.write_bytes(zstandard.compress(HISTORIES[0].encode() * 9)[:-9])

    with pytest.raises(OSError, match=r"in\.jsonl\.zst: the zstandard data are cut short"):
        tp.convert_jsonl(path, tmp_path / "out.jsonl")
    with pytest.raises(package.ValidationError, match=r"line 2"):
        path.write_bytes(zstandard.compress(f"{HISTORIES[0]}\n[\n".encode()))
        tp.convert_jsonl(path, tmp_path / "out.jsonl.zst")
    assert names(tmp_path) == ["in.jsonl.zst"]
