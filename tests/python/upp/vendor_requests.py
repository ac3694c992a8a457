"""What vendors take: strict JSON Schemas of their requests, written from their references.

Members of messages, parts, calls and tools are closed: one that is not listed is a mistake. Parameters at the top are
open, for vendors add them by the month. The recorded requests that vendors answered with 200 prove that no schema is
too strict (test_provider_corpus.py).
"""

from functools import cache

from jsonschema import Draft202012Validator

TEXT = {"type": "string"}
WORDS = {"type": "string", "minLength": 1}
ANYTHING = {}
OBJECT = {"type": "object"}
FLAG = {"type": "boolean"}
SCHEMA = {"type": "object", "properties": {"type": {"enum": ["object", "OBJECT"]}}}


def const(value):
    return {"const": value}


def of(required, optional=None, *, is_open=False):
    """An object with these members."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": is_open,
    }


def some(items, least=1):
    return {"type": "array", "items": items, "minItems": least}


def either(*schemas):
    return {"anyOf": list(schemas)}


def maybe(schema):
    return either(schema, {"type": "null"})


# OpenAI Chat Completions, with the additions of compatible vendors

CACHE = {"cache_control": of({"type": const("ephemeral")}, {"ttl": {"enum": ["5m", "1h"]}})}
CHAT_TEXT = of({"type": const("text"), "text": TEXT}, CACHE)
CHAT_PARTS = some(
    either(
        CHAT_TEXT,
        of({"type": const("image_url"), "image_url": either(WORDS, of({"url": WORDS}, {"detail": TEXT}))}, CACHE),
        of({"type": const("input_audio"), "input_audio": of({"data": WORDS, "format": WORDS})}),
        of(
            {
                "type": const("file"),
                "file": of({}, {"filename": TEXT, "file_data": TEXT, "file_id": TEXT, "file_url": TEXT}),
            }
        ),
        of({"type": const("video_url"), "video_url": of({"url": WORDS})}),
        of({"type": const("document_url"), "document_url": WORDS}, {"document_name": TEXT}),
        of({"type": const("thinking"), "thinking": some(CHAT_TEXT, 0)}),
        of({"type": const("refusal"), "refusal": TEXT}),
    )
)
CHAT_CALL = of(
    {"id": WORDS, "type": const("function"), "function": of({"name": WORDS, "arguments": TEXT})},
    {"index": {"type": "integer"}},
)
CHAT_CONTENT = either(TEXT, CHAT_PARTS)
CHAT = of(
    {
        "model": WORDS,
        "messages": some(
            either(
                of({"role": {"enum": ["system", "developer"]}, "content": CHAT_CONTENT}, {"name": TEXT}),
                of({"role": const("user"), "content": CHAT_CONTENT}, {"name": TEXT}),
                of(
                    {"role": const("assistant")},
                    {
                        "content": maybe(CHAT_CONTENT),
                        "tool_calls": some(CHAT_CALL),
                        "refusal": maybe(TEXT),
                        "name": TEXT,
                        "audio": ANYTHING,
                        "prefix": FLAG,
                        "reasoning": TEXT,
                        "reasoning_content": TEXT,
                        "reasoning_details": some(OBJECT),
                        "images": some(OBJECT),
                    },
                ),
                of({"role": const("tool"), "tool_call_id": WORDS, "content": CHAT_CONTENT}, {"name": TEXT}),
            )
        ),
    },
    {
        "tools": some(
            either(
                of(
                    {
                        "type": const("function"),
                        "function": of(
                            {"name": WORDS}, {"description": TEXT, "parameters": SCHEMA, "strict": maybe(FLAG)}
                        ),
                    },
                    CACHE,
                ),
                {"type": "object", "not": {"properties": {"type": const("function")}}},
            )
        ),
        "stream": FLAG,
    },
    is_open=True,
)

# OpenAI Responses

INPUT_PARTS = some(
    either(
        of({"type": const("input_text"), "text": TEXT}),
        of(
            {"type": const("input_image")},
            {"image_url": TEXT, "file_id": TEXT, "detail": {"enum": ["auto", "low", "high"]}},
        ),
        of(
            {"type": const("input_file")},
            {"filename": TEXT, "file_data": TEXT, "file_url": TEXT, "file_id": TEXT, "detail": TEXT},
        ),
        of({"type": const("input_audio"), "input_audio": ANYTHING}),
        of({"type": const("input_video"), "video_url": TEXT}),
    )
)
OUTPUT_PARTS = some(
    either(
        of({"type": const("output_text"), "text": TEXT}, {"annotations": some(OBJECT, 0), "logprobs": ANYTHING}),
        of({"type": const("refusal"), "refusal": TEXT}),
    ),
    0,
)
STATUS = {
    "status": maybe(
        {"enum": ["in_progress", "completed", "incomplete", "failed", "searching", "interpreting", "generating"]}
    )
}
KNOWN_ITEMS = ["message", "function_call", "function_call_output", "reasoning"]
RESPONSES_ITEM = either(
    of(
        {"role": {"enum": ["user", "system", "developer"]}, "content": either(TEXT, INPUT_PARTS)},
        {"type": const("message"), **STATUS},
    ),
    of(
        {"role": const("assistant"), "content": either(TEXT, OUTPUT_PARTS)},
        {"type": const("message"), "id": WORDS, "phase": maybe(TEXT), **STATUS},
    ),
    of(
        {"type": const("function_call"), "call_id": WORDS, "name": WORDS, "arguments": TEXT},
        {"id": WORDS, "namespace": maybe(TEXT), **STATUS},
    ),
    of(
        {"type": const("function_call_output"), "call_id": WORDS, "output": either(TEXT, INPUT_PARTS)},
        {"id": WORDS, **STATUS},
    ),
    of(
        {"type": const("reasoning"), "summary": some(of({"type": const("summary_text"), "text": TEXT}), 0)},
        {
            "id": WORDS,
            "encrypted_content": maybe(TEXT),
            "content": maybe(some(of({"type": const("reasoning_text"), "text": TEXT}), 0)),
            **STATUS,
        },
    ),
    # Native tools of the vendor: any type not listed above.
    {"type": "object", "properties": {"type": {"type": "string", "not": {"enum": KNOWN_ITEMS}}}, "required": ["type"]},
)
RESPONSES = of(
    {"model": WORDS, "input": either(WORDS, some(RESPONSES_ITEM))},
    {
        "tools": some(
            either(
                of(
                    {"type": const("function"), "name": WORDS},
                    {"description": maybe(TEXT), "parameters": SCHEMA, "strict": maybe(FLAG), "defer_loading": FLAG},
                ),
                {"type": "object", "properties": {"type": {"not": const("function")}}, "required": ["type"]},
            )
        ),
        "stream": FLAG,
    },
    is_open=True,
)

# Anthropic Messages

SOURCE = either(
    of({"type": const("base64"), "media_type": WORDS, "data": WORDS}),
    of({"type": const("url"), "url": WORDS}),
    of({"type": const("text"), "media_type": const("text/plain"), "data": TEXT}),
    of({"type": const("file"), "file_id": WORDS}),
    of({"type": const("content"), "content": ANYTHING}),
)
CLAUDE_TEXT = of({"type": const("text"), "text": WORDS}, {**CACHE, "citations": maybe(some(OBJECT, 0))})
CLAUDE_IMAGE = of({"type": const("image"), "source": SOURCE}, CACHE)
CLAUDE_DOCUMENT = of(
    {"type": const("document"), "source": SOURCE},
    {**CACHE, "title": maybe(TEXT), "context": maybe(TEXT), "citations": OBJECT},
)
CLAUDE_KNOWN = ["text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"]
CLAUDE_OWN_TOOL = {
    "type": "object",
    "properties": {"type": {"type": "string", "not": {"enum": CLAUDE_KNOWN}}},
    "required": ["type"],
}
CALLER = {"caller": OBJECT}
CLAUDE_ASSISTANT = either(
    CLAUDE_TEXT,
    of(
        {
            "type": const("tool_use"),
            "id": {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$"},
            "name": WORDS,
            "input": OBJECT,
        },
        {**CACHE, **CALLER},
    ),
    of({"type": const("thinking"), "thinking": TEXT, "signature": TEXT}),
    of({"type": const("redacted_thinking"), "data": WORDS}),
    CLAUDE_OWN_TOOL,
)
CLAUDE_USER = either(
    CLAUDE_TEXT,
    CLAUDE_IMAGE,
    CLAUDE_DOCUMENT,
    of(
        {"type": const("tool_result"), "tool_use_id": WORDS},
        {
            "content": either(TEXT, some(either(CLAUDE_TEXT, CLAUDE_IMAGE, CLAUDE_DOCUMENT, CLAUDE_OWN_TOOL), 0)),
            "is_error": FLAG,
            **CACHE,
        },
    ),
    CLAUDE_OWN_TOOL,
)
MESSAGES = of(
    {
        "model": WORDS,
        "max_tokens": {"type": "integer", "minimum": 1},
        "messages": some(
            either(
                of({"role": const("user"), "content": either(WORDS, some(CLAUDE_USER))}),
                of({"role": const("assistant"), "content": either(WORDS, some(CLAUDE_ASSISTANT))}),
                of({"role": const("system"), "content": either(WORDS, some(either(CLAUDE_TEXT, CLAUDE_OWN_TOOL)))}),
            )
        ),
    },
    {
        "system": either(TEXT, some(CLAUDE_TEXT)),
        "tools": some(
            either(
                of({"name": WORDS, "input_schema": SCHEMA}, {"type": const("custom")}, is_open=True),
                of({"type": WORDS}, is_open=True),
            )
        ),
        "stream": FLAG,
    },
    is_open=True,
)

# Google generateContent


def spelled(members):
    """Members in camel case, or in the snake case that the vendor reads as well."""
    snake = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): schema for name, schema in members.items()}
    return {**members, **snake}


SIGNED = spelled({"thought": FLAG, "thoughtSignature": WORDS, "videoMetadata": OBJECT})
BLOB = of({"data": WORDS}, spelled({"mimeType": WORDS, "displayName": TEXT}))
FILE = of({}, spelled({"mimeType": WORDS, "fileUri": WORDS, "displayName": TEXT}))
CALLED = of({"name": WORDS}, {"id": TEXT, "args": OBJECT})
RETURNED = of({"name": WORDS, "response": OBJECT}, {"id": TEXT, "parts": some(OBJECT), "scheduling": TEXT})
CODE = of({"code": TEXT}, {"language": TEXT, "id": TEXT})
RAN = of({"outcome": TEXT}, {"output": TEXT, "id": TEXT})
GEMINI_DATA = spelled(
    {
        "text": TEXT,
        "inlineData": BLOB,
        "fileData": FILE,
        "functionCall": CALLED,
        "functionResponse": RETURNED,
        "executableCode": CODE,
        "codeExecutionResult": RAN,
        "toolCall": OBJECT,
        "toolResponse": OBJECT,
    }
)
GEMINI_PART = {**of({}, {**GEMINI_DATA, **SIGNED}), "minProperties": 1}
GEMINI = of(
    {"contents": some(of({"parts": some(GEMINI_PART)}, {"role": {"enum": ["user", "model"]}}))},
    spelled(
        {
            "systemInstruction": of({"parts": some(of({"text": TEXT}))}, {"role": TEXT}),
            "generationConfig": OBJECT,
            "tools": some(
                of(
                    {},
                    spelled(
                        {
                            "functionDeclarations": some(
                                of(
                                    {"name": WORDS},
                                    spelled(
                                        {
                                            "description": TEXT,
                                            "parameters": SCHEMA,
                                            "parametersJsonSchema": ANYTHING,
                                            "response": OBJECT,
                                            "responseJsonSchema": ANYTHING,
                                            "behavior": TEXT,
                                        }
                                    ),
                                )
                            )
                        }
                    ),
                    is_open=True,
                )
            ),
            "toolConfig": OBJECT,
            "safetySettings": some(OBJECT, 0),
            "cachedContent": WORDS,
            "labels": OBJECT,
            "modelArmorConfig": OBJECT,
            "serviceTier": TEXT,
        }
    ),
)

# Ollama

OLLAMA = of(
    {
        "model": WORDS,
        "messages": some(
            of(
                {"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": TEXT},
                {
                    "images": some(WORDS),
                    "thinking": TEXT,
                    "tool_name": WORDS,
                    "tool_call_id": WORDS,
                    "tool_calls": some(
                        of(
                            {"function": of({"name": WORDS, "arguments": OBJECT}, {"index": {"type": "integer"}})},
                            {"id": TEXT},
                        )
                    ),
                },
            )
        ),
        "stream": FLAG,
    },
    {
        "tools": some(
            of(
                {
                    "type": const("function"),
                    "function": of({"name": WORDS, "parameters": SCHEMA}, {"description": TEXT}),
                }
            )
        ),
        "options": OBJECT,
        "format": either(const("json"), OBJECT),
        "keep_alive": ANYTHING,
        "think": ANYTHING,
        "logprobs": FLAG,
        "top_logprobs": {"type": "integer"},
    },
)

BY_API = {
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "anthropic-messages": MESSAGES,
    "google-generate-content": GEMINI,
    "ollama-chat": OLLAMA,
}


@cache
def validator(api):
    return Draft202012Validator(BY_API[api])


def problem(api, body):
    """Why the vendor would reject a request; None if it would accept it."""
    errors = sorted(validator(api).iter_errors(body), key=lambda error: len(error.absolute_path))
    for error in errors[:1]:
        while error.context:
            # Report the alternative whose error is deepest: it matched the most.
            error = max(error.context, key=lambda inner: len(inner.absolute_path))
        place = "/".join(map(str, error.absolute_path))
        return f"{place}: {error.message[:200]}"
    return None
