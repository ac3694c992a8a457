"""Requests against the types of the vendors' own packages, and signatures against botocore's.

The packages are installed into `target/vendor-sdks`, at the versions of `requirements/vendor-sdks.txt`. Without them
the tests say NOT TESTED, or fail if TURNTREE_REQUIRE_CLIENTS is set.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_strict_schemas import SHAPES
from test_vendor_features import contains, rows

from turntree import upp
from turntree.testing import RawReply, serve
from turntree.upp import (
    Document,
    Image,
    ModelSettings,
    anthropic,
    bedrock,
    google,
    groq,
    llm,
    openai,
    openrouter,
    xai,
)

ROOT = Path(__file__).parents[3]
REQUIREMENTS = ROOT / "requirements" / "vendor-sdks.txt"
KEY = {"api_key": "k"}

pytestmark = pytest.mark.timeout(600)

VENDORS = {
    "OpenAI": ("openai-responses", lambda url: openai("gpt-5", base_url=url, **KEY)),
    "OpenAI Chat": ("openai-chat", lambda url: openai("gpt-5", "completions", base_url=url, **KEY)),
    "Anthropic": ("anthropic-messages", lambda url: anthropic("claude-sonnet-4-5", base_url=url, **KEY)),
    "Google": ("google-generate-content", lambda url: google("gemini-2.5-flash", base_url=url, **KEY)),
    "Amazon Bedrock": (
        "bedrock-converse",
        lambda url: bedrock("eu.anthropic.claude-sonnet-4-5-v1:0", "eu-west-1", base_url=url, auth="k"),
    ),
}

#: Vendors without packages that have the types of their requests; `sdk/documented.py` has what their pages say.
DOCUMENTED = {
    "xAI": ("xai-responses", lambda url: xai("grok-4", "responses", base_url=url, **KEY)),
    "OpenRouter": ("openrouter-chat", lambda url: openrouter("anthropic/claude-sonnet-4.5", base_url=url, **KEY)),
    "Groq": ("groq-chat", lambda url: groq("openai/gpt-oss-120b", base_url=url, **KEY)),
}


def python():
    """The Python of an environment with the packages."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    home = ROOT / "target" / "vendor-sdks" / f"{digest}-py{sys.version_info.major}{sys.version_info.minor}"
    found = home / "bin" / "python"
    if not (home / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(found)]
        try:
            done = subprocess.run(
                [*pip, "install", "-q", "-r", str(REQUIREMENTS)], capture_output=True, text=True, timeout=480
            )
            failure = done.stderr.strip() if done.returncode else ""
        except subprocess.TimeoutExpired:
            failure = "pip took more than 480 s"
        if failure:
            message = f"NOT TESTED with the packages of {REQUIREMENTS.name}: {failure.splitlines()[-1]}"
            (pytest.fail if os.environ.get("TURNTREE_REQUIRE_CLIENTS", "") not in ("", "0") else pytest.skip)(message)
        (home / ".ready").touch()
    return found


@pytest.fixture(scope="module")
def ask():
    """A function that asks the packages."""
    program = [str(python()), str(Path(__file__).with_name("sdk") / "checker.py")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:

        def asked(check, value):
            process.stdin.write(json.dumps({"check": check, "value": value}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield asked
        process.stdin.close()


@pytest.fixture(scope="module")
def server():
    with serve(lambda _: RawReply("{}", status=418)) as running:
        yield running


def body_of(server, make, given="hi", **options):
    """What is sent to a vendor."""
    with pytest.raises(upp.UPPError):
        llm(model=make(server.base_url), **options).generate_sync(given)
    return json.loads(server.requests[-1].body)


@pytest.mark.parametrize("vendor", VENDORS)
def test_structured_output_of_every_shape_fits_the_types(ask, server, vendor):
    api, make = VENDORS[vendor]
    assert len(SHAPES) >= 13
    wrong = {}
    for shape in SHAPES:
        body = body_of(server, make, structure=shape.values[0], params={"max_tokens": 50} if "Anth" in vendor else {})
        wrong[shape.id] = ask(api, body)
    assert {name: problem for name, problem in wrong.items() if problem} == {}


def test_every_vendor_of_the_page_is_checked():
    assert {row.values[0] for row in rows()} == {*VENDORS, *DOCUMENTED} - {"OpenAI Chat"}


@pytest.mark.parametrize("vendor", [name for name in (*VENDORS, *DOCUMENTED) if name != "OpenAI Chat"])
def test_every_feature_fits_the_types(ask, server, vendor):
    api, make = {**VENDORS, **DOCUMENTED}[vendor]
    wrong = {}
    for row in rows():
        named, how, part = row.values
        if named != vendor:
            continue
        names = {name: getattr(upp, name) for name in ("Document", "Image", "ModelSettings", "native")}
        options = eval(f"dict({how})", names)
        given = options.pop("input", "hi")
        params = {**({"max_tokens": 8192} if vendor == "Anthropic" else {}), **options.pop("params", {})}
        body = body_of(server, make, given, params=params, **options)
        assert contains(body, json.loads(part))
        # Betas are in types of their own.
        check = "anthropic-beta" if "anthropic-beta" in row.id or "beta" in row.id else api
        wrong[row.id] = ask(check, body)
    assert wrong
    assert {name: problem for name, problem in wrong.items() if problem} == {}


NATIVE = {
    "xAI": [
        upp.native.xai.web_search(allowed_domains=["a.example"], enable_image_understanding=True),
        upp.native.xai.web_search(excluded_domains=["a.example"], enable_image_search=True),
        upp.native.xai.x_search(allowed_x_handles=["xai"], from_date="2026-01-01", to_date="2026-02-01"),
        upp.native.xai.x_search(excluded_x_handles=["xai"], enable_video_understanding=True),
        upp.native.xai.code_execution(),
        upp.native.xai.file_search(["c_1"], max_num_results=3, retrieval_mode="hybrid"),
        upp.native.xai.mcp("https://host/mcp", server_label="docs", allowed_tools=["a"], headers={"x-a": "1"}),
    ],
    "OpenRouter": [upp.native.openrouter.web_search(engine="exa", max_results=3)],
    "Groq": [upp.native.groq.browser_search(), upp.native.groq.code_interpreter()],
}


@pytest.mark.parametrize("vendor", DOCUMENTED)
def test_tools_of_vendors_without_types_are_as_documented(ask, server, vendor):
    api, make = DOCUMENTED[vendor]
    made = {tool.name for tool in NATIVE[vendor]}
    assert len(made) == len(getattr(upp.native, vendor.lower()).__all__)
    for tool in NATIVE[vendor]:
        body = body_of(server, make, tools=[tool])
        assert (body["tools"], ask(api, body)) == ([dict(tool)], None)


def look() -> str:
    """Look."""
    raise AssertionError


# The package no longer has them, because newer models refuse them.
OF_OLDER_MODELS = {"temperature", "top_p"}

SETTINGS = [
    {"max_tokens": 9000, "temperature": 0.5, "top_p": 0.9, "stop": "END"},
    {"seed": 7},
    *({"reasoning": effort} for effort in ("low", "medium", "high", "none", 4096)),
    {"parallel_tool_calls": False},
    *({"tool_choice": choice} for choice in ("auto", "none", "required", "look")),
    *({"service_tier": tier} for tier in ("auto",)),
    *({"cache": cache} for cache in ("auto", "5m", "1h", "off")),
    {"timeout": 30.0},
    {"raw": True},
]


def test_every_setting_has_a_row():
    assert {name for row in SETTINGS for name in row} == set(ModelSettings.__slots__)


@pytest.mark.filterwarnings("ignore:settings")
@pytest.mark.parametrize("vendor", VENDORS)
def test_every_setting_fits_the_types(ask, server, vendor):
    api, make = VENDORS[vendor]
    wrong = {}
    for settings in SETTINGS:
        values = dict(settings)
        if vendor == "Anthropic" and "max_tokens" not in values:
            values["max_tokens"] = 9000
        if vendor == "Amazon Bedrock" and "service_tier" in values:
            values["service_tier"] = "flex"
        body = body_of(server, make, system="Rules", tools=[upp.tool(look)], settings=ModelSettings(**values))
        if vendor == "Anthropic":
            body = {name: value for name, value in body.items() if name not in OF_OLDER_MODELS}
        wrong[str(settings)] = ask(api, body)
    assert {name: problem for name, problem in wrong.items() if problem} == {}


@pytest.mark.parametrize("vendor", VENDORS)
def test_conversations_with_tools_and_media_fit_the_types(ask, server, vendor):
    api, make = VENDORS[vendor]
    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n", mime_type="image/png")
    paper = Document.from_base64("JVBERi0xLjQ=", "application/pdf", "Paper")
    history = [
        upp.UserMessage(["What is this?", picture, paper]),
        upp.AssistantMessage(["Let me look."], [upp.ToolCall("call_1", "look", {"a": [1, None]})]),
        upp.ToolResultMessage([upp.ToolResult("call_1", {"seen": "ü"})]),
        upp.AssistantMessage(["A box.", upp.CodeExecution("1+1", "2", language="python")]),
    ]
    body = body_of(server, make, system="Rules", tools=[upp.tool(look)], settings={"max_tokens": 9}, given=history)
    assert ask(api, body) is None


def test_counts_of_tokens_fit_the_types_of_bedrock(ask, server):
    model = VENDORS["Amazon Bedrock"][1](server.url)
    bound = llm(
        model=model, system="Rules", tools=[upp.tool(look)], settings=ModelSettings(max_tokens=9, reasoning=4096)
    )
    with pytest.raises(upp.UPPError):
        asyncio.run(bound.count_tokens("hi"))
    request = server.requests[-1]
    assert request.path.endswith("/count-tokens")
    assert ask("bedrock-count-tokens", json.loads(request.body)) is None


def test_the_check_finds_mistakes(ask):
    chat = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "txt": "hi"}]}]}
    assert "txt" in ask("openai-chat", chat)
    assert "max_tokens" in ask("anthropic-messages", {"model": "m", "messages": []})
    assert "nothing" in ask("google-generate-content", {"contents": [{"parts": [{"nothing": 1}]}]})
    assert "nothing" in ask("bedrock-converse", {"messages": [], "nothing": 1})
    flat = {"type": "web_search", "allowed_domains": ["a.example"]}
    assert "allowed_domains" in ask("xai-responses", {"model": "m", "input": "hi", "tools": [flat]})
    assert "nothing" in ask("openrouter-chat", {"model": "m", "messages": [], "provider": {"nothing": 1}})
    assert "nothing" in ask("groq-chat", {"model": "m", "messages": [], "tools": [{"type": "nothing"}]})


SIGNED = [
    ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "eu-central-1", "hi"),
    ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-pro-v1:0", "us-east-1", "hi"),
    ("amazon.nova-lite-v1:0", "ap-south-1", "ümläuts, 😀 and\nlines"),
    ("a model~with_odd-name.x", "us-gov-west-1", ""),
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("token", [None, "a/token+with=signs=="])
@pytest.mark.parametrize(("model_id", "region", "text"), SIGNED)
def test_signatures_are_those_of_botocore(ask, server, model_id, region, text, token, streamed):
    keys = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
    headers = {"x-note": "  two   words ", "anthropic-beta": "a,b"}
    model = bedrock(model_id, region, base_url=server.url, session_token=token, headers=headers, **keys)
    with pytest.raises(upp.UPPError):
        if streamed:
            list(llm(model=model).stream_sync(text))
        else:
            llm(model=model).generate_sync(text)
    request = server.requests[-1]
    value = {
        "method": request.method,
        "url": f"{server.url}{request.path}",
        "headers": request.headers,
        "body": request.body.decode(),
        "key_id": keys["access_key_id"],
        "secret": keys["secret_access_key"],
        "region": region,
    }
    assert request.headers["authorization"].rpartition("Signature=")[2] == ask("signature", value)
    assert ("x-amz-security-token" in request.headers) is (token is not None)
