"""`turntree.upp.files` against the documented wire of each vendor."""

import json

import pytest
from batch_support import VendorServer, parts_of

from turntree.upp import ErrorCode, UPPError, anthropic, files, google, groq, llm, openai, scripted, vertex

KEY = "sk-secret-key"
OPENAI = {"id": "file-1", "object": "file", "bytes": 5, "filename": "note.txt", "purpose": "user_data"}
ANTHROPIC = {"id": "file_1", "type": "file", "filename": "note.txt", "mime_type": "text/plain", "size_bytes": 5}
GOOGLE = {
    "name": "files/1",
    "displayName": "note.txt",
    "mimeType": "text/plain",
    "sizeBytes": "5",
    "uri": "https://x/files/1",
}


@pytest.fixture(scope="module")
def server():
    server = VendorServer()
    yield server
    server.close()


@pytest.fixture
def vendor(server):
    server.answers.clear()
    server.seen.clear()
    return server


def models(vendor):
    return {
        "anthropic": anthropic("claude-sonnet-4-5", base_url=vendor.url, api_key=KEY),
        "google": google("gemini-2.5-flash", base_url=vendor.url, api_key=KEY),
        "openai": openai("gpt-5", base_url=vendor.url, api_key=KEY),
    }


async def test_openai_receives_a_form_with_the_purpose(vendor, tmp_path):
    vendor.answers["POST /v1/files"] = OPENAI
    (tmp_path / "note.txt").write_bytes(b"hello")

    file = await files.upload(models(vendor)["openai"], tmp_path / "note.txt")

    (_, _, headers, body) = vendor.seen[0]
    purpose, content = parts_of(headers, body)
    assert (purpose[2], purpose[1]) == ("purpose", b"user_data")
    assert (content[2], content[3], content[1], content[0]["content-type"]) == (
        "file",
        "note.txt",
        b"hello",
        "text/plain",
    )
    assert headers["authorization"] == f"Bearer {KEY}"
    assert file == files.File("file-1", "note.txt", "text/plain", 5, "openai")


async def test_anthropic_receives_a_form_with_its_beta_header(vendor):
    vendor.answers["POST /v1/files"] = ANTHROPIC

    file = await files.upload(models(vendor)["anthropic"], b"hello", name="note.txt")

    (_, _, headers, body) = vendor.seen[0]
    ((part, content, field, name),) = parts_of(headers, body)
    assert (part["content-type"], content, field, name) == ("text/plain", b"hello", "file", "note.txt")
    assert "files-api-2025-04-14" in headers["anthropic-beta"]
    assert headers["x-api-key"] == KEY
    assert file == files.File("file_1", "note.txt", "text/plain", 5, "anthropic")


async def test_google_receives_metadata_and_content_at_the_upload_path(vendor):
    vendor.answers["POST /upload/v1/files"] = {"file": GOOGLE}

    file = await files.upload(models(vendor)["google"], b"hello", name="note.txt")

    (_, _, headers, body) = vendor.seen[0]
    about, content = parts_of(headers, body)
    assert headers["x-goog-upload-protocol"] == "multipart"
    assert headers["content-type"].startswith("multipart/related")
    assert json.loads(about[1]) == {"file": {"displayName": "note.txt", "mimeType": "text/plain"}}
    assert (content[0]["content-type"], content[1]) == ("text/plain", b"hello")
    assert file == files.File("files/1", "note.txt", "text/plain", 5, "google", "https://x/files/1")


@pytest.mark.parametrize(
    ("provider", "id", "answer"),
    [("openai", "file-1", OPENAI), ("anthropic", "file_1", ANTHROPIC), ("google", "files/1", GOOGLE)],
)
async def test_files_are_looked_up_and_deleted(vendor, provider, id, answer):
    path = f"/v1/files/{id.removeprefix('files/')}"
    vendor.answers |= {f"GET {path}": answer, f"DELETE {path}": {}}
    bound = llm(model=models(vendor)[provider])

    file = await files.get(bound, id)
    deleted = await files.delete(bound, id)

    assert (file.id, file.name, file.media_type, file.bytes, deleted) == (id, "note.txt", "text/plain", 5, None)
    assert [(method, at) for method, at, _, _ in vendor.seen] == [("GET", path), ("DELETE", path)]
    assert all(("anthropic-beta" in headers) == (provider == "anthropic") for _, _, headers, _ in vendor.seen)


async def test_the_configuration_of_an_llm_has_precedence(vendor):
    vendor.answers["POST /v1/files"] = OPENAI
    bound = llm(model=openai("gpt-5", api_key="other"), config={"base_url": vendor.url, "api_key": KEY})

    await files.upload(bound, b"hello")

    assert vendor.seen[0][2]["authorization"] == f"Bearer {KEY}"


async def test_sync_functions_work_inside_an_event_loop(vendor):
    vendor.answers |= {"POST /v1/files": OPENAI, "GET /v1/files/file-1": OPENAI, "DELETE /v1/files/file-1": {}}
    model = models(vendor)["openai"]

    assert files.upload_sync(model, b"hello", name="note.txt") == files.get_sync(model, "file-1")
    files.delete_sync(model, "file-1")


def test_sync_functions_work_without_an_event_loop(vendor):
    vendor.answers["POST /v1/files"] = OPENAI

    assert files.upload_sync(models(vendor)["openai"], b"hello", purpose="batch").id == "file-1"
    assert parts_of(*vendor.seen[0][2:])[0][1] == b"batch"


@pytest.mark.parametrize("model", [groq("m", api_key=KEY), scripted([])], ids=["vendor", "scripted"])
async def test_other_vendors_are_refused_with_those_that_keep_files(model):
    with pytest.raises(UPPError, match=r"files are not supported for .*anthropic or google or openai") as caught:
        await files.upload(model, b"hello")

    assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_errors_have_no_key(vendor):
    with pytest.raises(UPPError) as caught:
        await files.get(models(vendor)["openai"], "file-2")

    assert caught.value.status_code == 404
    assert KEY not in f"{caught.value!r} {caught.value.message} {caught.value.body} {caught.value.headers}"


@pytest.mark.parametrize("answer", [{}, [], b"<html>", {"id": "x", "filename": "a", "bytes": "many"}])
async def test_a_response_that_is_no_file_is_refused(vendor, answer):
    vendor.answers["GET /v1/files/file-1"] = answer

    with pytest.raises(UPPError, match="openai") as caught:
        await files.get(models(vendor)["openai"], "file-1")

    assert caught.value.code == ErrorCode.INVALID_RESPONSE


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"data": 5}, TypeError, "data must be bytes, or the path of a file, not int"),
        ({"data": b"", "name": 5}, TypeError, "name must be a str, not int"),
        ({"data": b"", "media_type": "a\r\nb: c"}, ValueError, "media_type must be a text without line breaks"),
        ({"data": b"", "purpose": "x"}, ValueError, "purpose is an option of openai; leave it out for anthropic"),
        ({"data": "/no/such/file"}, FileNotFoundError, "/no/such/file"),
    ],
)
async def test_wrong_arguments_are_named(vendor, arguments, error, text):
    with pytest.raises(error, match=text):
        await files.upload(models(vendor)["anthropic"], **arguments)

    assert vendor.seen == []


@pytest.mark.parametrize(
    ("id", "error"), [(5, TypeError), ("", ValueError), ("../models", ValueError), ("..", ValueError)]
)
async def test_an_id_cannot_leave_the_path(vendor, id, error):
    with pytest.raises(error, match="id must be"):
        await files.delete(models(vendor)["openai"], id)

    assert vendor.seen == []


async def test_quotes_in_a_name_are_escaped(vendor):
    vendor.answers["POST /v1/files"] = OPENAI

    await files.upload(models(vendor)["openai"], b"hello", name='a".txt')

    assert b'filename="a%22.txt"' in vendor.seen[0][3]


async def test_something_else_than_a_model_is_refused():
    with pytest.raises(TypeError, match="model must come from a provider's factory"):
        await files.get(5, "file-1")


async def test_claude_at_vertex_names_the_way(vendor):
    model = vertex("claude-sonnet-4-5", "my-project", auth="token", base_url=vendor.url)
    for call in (files.get(model, "file_1"), files.upload(model, b"x"), llm(model=model).batch(["hi"])):
        with pytest.raises(UPPError, match=r"Vertex AI has no .* of Claude; use a model of anthropic") as caught:
            await call
        assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert vendor.seen == []
