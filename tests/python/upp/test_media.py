"""Media classes: from files, URLs, bytes and texts, and back. UPP-1.2 §8."""

import base64

import pytest

from turntree.upp import Audio, Document, Image, Text, UserMessage, Video

PNG = b"\x89PNG\r\n\x1a\nrest"


@pytest.mark.parametrize(
    ("make", "name", "kind"),
    [
        (Image, "a.jpeg", "image/jpeg"),
        (Image, "a.svg", "image/svg+xml"),
        (Image, "a.unknown", "image/png"),
        (Document, "a.pdf", "application/pdf"),
        (Document, "a.md", "text/plain"),
        (Document, "a.doc", "application/octet-stream"),
        (Audio, "a.mp3", "audio/mp3"),
        (Audio, "a.aif", "audio/aiff"),
        (Video, "a.mov", "video/quicktime"),
        (Video, "a.3gp", "video/3gpp"),
    ],
)
def test_files_are_read_synchronously_and_asynchronously(run, tmp_path, make, name, kind):
    path = tmp_path / name
    path.write_bytes(PNG)

    async def later():
        return await make.from_path_async(path)

    block = make.from_path(path)

    assert block.mime_type == kind
    assert base64.b64decode(block.to_base64()) == PNG == block.to_bytes()
    assert block == make.from_path(str(path)) == run(later())


@pytest.mark.parametrize("make", [Image, Document, Audio, Video])
def test_error_names_an_unreadable_file(run, tmp_path, make):
    empty, missing = tmp_path / "empty.png", tmp_path / "missing.png"
    empty.touch()
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        file.truncate(512 * 1024 * 1024 + 1)

    async def later():
        await make.from_path_async(missing)

    for path, error in [
        (missing, FileNotFoundError),
        (tmp_path, IsADirectoryError),
        (empty, ValueError),
        (huge, ValueError),
    ]:
        with pytest.raises(error, match=path.name):
            make.from_path(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.png"):
        run(later())


def test_media_attributes_are_preserved(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")

    assert Document.from_path(path, "Title").title == "Title"
    assert Audio.from_path(path, 1.5).duration == 1.5
    video = Video.from_path(path, duration=2.0, width=3, height=4)
    assert (video.duration, video.width, video.height) == (2.0, 3, 4)
    assert Video.from_bytes(b"x", "video/mp4", width=3) == Video.from_base64("eA==", "video/mp4", width=3)
    assert Audio.from_bytes(b"x", "audio/wav", 1.0) == Audio.from_base64("eA==", "audio/wav", 1.0)


def test_image_url_has_no_data():
    picture = Image.from_url("https://host/a.png?size=2")

    assert (picture.mime_type, picture.has_data, picture.to_url()) == ("image/png", False, "https://host/a.png?size=2")
    for ask in (picture.to_base64, picture.to_bytes, picture.to_data_url):
        with pytest.raises(ValueError, match="at a URL"):
            ask()
    with pytest.raises(ValueError, match="no URL"):
        Image.from_bytes(b"x", "image/png").to_url()


@pytest.mark.parametrize("make", [Image, Document])
def test_a_path_instead_of_a_url_is_answered_with_the_function_for_files(make):
    with pytest.raises(ValueError, match=rf"; {make.__name__}\.from_path reads a file"):
        make.from_url("x.png")


@pytest.mark.parametrize("url", ["", "a.png", "https://", "http://host/a b"])
def test_invalid_url_is_rejected(url):
    for make in (Image, Document):
        with pytest.raises(ValueError, match="url"):
            make.from_url(url)


def test_data_urls_are_parsed():
    picture = Image.from_url(Image.from_bytes(PNG, "image/png").to_data_url())

    assert picture.has_data
    assert picture.to_bytes() == PNG
    assert Document.from_url("data:application/pdf;base64,AAEC").to_base64() == "AAEC"


def test_document_converts_only_to_its_own_form():
    text, data = Document.from_text("hi", "T"), Document.from_base64("aGk=", "application/pdf")
    remote = Document.from_url("https://host/a")

    assert (text.is_text, text.is_pdf, text.has_data, text.to_text(), text.to_bytes()) == (
        True,
        False,
        True,
        "hi",
        b"hi",
    )
    assert (data.is_pdf, data.to_base64(), data.to_bytes()) == (True, "aGk=", b"hi")
    assert (remote.is_pdf, remote.has_data, remote.to_url()) == (True, False, "https://host/a")
    for ask in (text.to_base64, text.to_url, data.to_text, data.to_url, remote.to_text, remote.to_base64):
        with pytest.raises(ValueError, match="document"):
            ask()


def test_media_blocks_round_trip_with_their_class():
    blocks = [
        Image({"type": "url", "url": "https://host/a"}, "image/png", 1, 2),
        Document({"type": "text", "data": "hi"}, "text/plain", "T"),
        Audio(b"x", "audio/wav"),
        Video(b"xy", "video/mp4"),
    ]
    for block in blocks:
        assert type(block).from_block(block) == type(block).from_block(block.to_dict()) == block
        assert block.to_block() is block
        with pytest.raises(TypeError, match="block must be of type"):
            type(block).from_block(Text("hi"))
        assert UserMessage([block]).content == [block]
    assert [blocks[2].size, blocks[3].size] == [1, 2]
    assert blocks[2].to_data_url() == "data:audio/wav;base64,eA=="


def test_media_sources_are_validated():
    with pytest.raises(TypeError, match="source must be a dict"):
        Image("https://host/a", "image/png")
    with pytest.raises(TypeError, match="base64, url, text"):
        Document({"type": "bytes", "data": ""}, "application/pdf")
    for make in (Image, Document, Audio, Video):
        with pytest.raises(ValueError, match="not base64"):
            make.from_base64("?", "a/b")
        with pytest.raises(TypeError, match="data must be bytes"):
            make.from_bytes("text", "a/b")
