//! Generated bodies of streamed responses in the format of each vendor: reasoning, text, a tool call and the usage, in
//! deltas of a few characters.

use std::fmt::Write as _;

/// The number of deltas of the text and of the reasoning in one body.
const TEXT_PIECES: usize = 400;
const THOUGHT_PIECES: usize = 80;

/// Deltas of the length of tokens; some need JSON escapes, some are not ASCII.
const PIECES: [&str; 16] = [
    "The",
    " weather",
    " in",
    " Kyōto",
    " is",
    " mild",
    " today",
    ",",
    " with",
    " a",
    " light",
    " breeze",
    " from the",
    " west",
    ".\\n\\n",
    " \\\"scattered\\\"",
];

const ARGUMENTS: [&str; 12] =
    ["{\\\"", "city", "\\\":\\\"", "K", "yo", "to", "\\\",\\\"", "days", "\\\":", "3", "}", ""];

fn pieces(count: usize) -> impl Iterator<Item = &'static str> {
    PIECES.into_iter().cycle().take(count)
}

/// Padding, which vendors add to hide the length of a delta.
fn padding(place: usize) -> &'static str {
    "aZ3kQ9xB2mW7".get(..place % 12).unwrap_or_default()
}

fn data(body: &mut String, json: std::fmt::Arguments<'_>) {
    let _ = write!(body, "data: {json}\n\n");
}

/// Chat Completions of `OpenAI`.
pub(super) fn chat() -> String {
    chat_of(TEXT_PIECES)
}

/// The same with one text delta: the cost of a stream without its deltas.
pub(super) fn shortest_chat() -> String {
    chat_of(1)
}

fn chat_of(text_pieces: usize) -> String {
    let mut body = String::new();
    let mut place = 0;
    let mut choice = |body: &mut String, delta: std::fmt::Arguments<'_>, reason: &str| {
        place += 1;
        data(
            body,
            format_args!(
                "{{\"id\":\"chatcmpl-B8MtKvZ0cXq1hRzJ5aTw\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\
             \"model\":\"gpt-4.1-2025-04-14\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_b376dfbbd5\",\
             \"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{reason}}}],\
             \"usage\":null,\"obfuscation\":\"{}\"}}",
                padding(place)
            ),
        );
    };
    choice(&mut body, format_args!("{{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}}"), "null");
    for piece in pieces(text_pieces) {
        choice(&mut body, format_args!("{{\"content\":\"{piece}\"}}"), "null");
    }
    choice(
        &mut body,
        format_args!(
            "{{\"tool_calls\":[{{\"index\":0,\"id\":\"call_9wLk2mQ\",\"type\":\"function\",\
             \"function\":{{\"name\":\"weather\",\"arguments\":\"\"}}}}]}}"
        ),
        "null",
    );
    for piece in ARGUMENTS {
        choice(
            &mut body,
            format_args!("{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"{piece}\"}}}}]}}"),
            "null",
        );
    }
    choice(&mut body, format_args!("{{}}"), "\"tool_calls\"");
    data(
        &mut body,
        format_args!(
            "{{\"id\":\"chatcmpl-B8MtKvZ0cXq1hRzJ5aTw\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\
         \"model\":\"gpt-4.1-2025-04-14\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_b376dfbbd5\",\
         \"choices\":[],\"usage\":{{\"prompt_tokens\":52,\"completion_tokens\":413,\"total_tokens\":465,\
         \"prompt_tokens_details\":{{\"cached_tokens\":0,\"audio_tokens\":0}},\
         \"completion_tokens_details\":{{\"reasoning_tokens\":0,\"audio_tokens\":0}}}}}}"
        ),
    );
    body + "data: [DONE]\n\n"
}

/// Chat Completions with a separate reasoning field, of `DeepSeek`, Moonshot and Z.AI.
pub(super) fn chat_with_reasoning() -> String {
    let mut body = String::new();
    let choice = |body: &mut String, delta: std::fmt::Arguments<'_>, reason: &str, usage: &str| {
        data(
            body,
            format_args!(
                "{{\"id\":\"4f2c11b8-9d51-4c0a-8f6e-1f0f5ab0c1de\",\"object\":\"chat.completion.chunk\",\
             \"created\":1748000000,\"model\":\"deepseek-reasoner\",\"system_fingerprint\":\"fp_393bca965e_prod\",\
             \"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{reason}}}]{usage}}}"
            ),
        );
    };
    choice(
        &mut body,
        format_args!("{{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"\"}}"),
        "null",
        "",
    );
    for piece in pieces(THOUGHT_PIECES) {
        choice(&mut body, format_args!("{{\"content\":null,\"reasoning_content\":\"{piece}\"}}"), "null", "");
    }
    for piece in pieces(TEXT_PIECES) {
        choice(&mut body, format_args!("{{\"content\":\"{piece}\",\"reasoning_content\":null}}"), "null", "");
    }
    let usage = ",\"usage\":{\"prompt_tokens\":52,\"completion_tokens\":480,\"total_tokens\":532,\
                 \"prompt_cache_hit_tokens\":0,\"prompt_cache_miss_tokens\":52}";
    choice(&mut body, format_args!("{{\"content\":\"\",\"reasoning_content\":null}}"), "\"stop\"", usage);
    body + "data: [DONE]\n\n"
}

/// Chat Completions with reasoning in two fields, of `OpenRouter`.
pub(super) fn openrouter() -> String {
    let mut body = String::from(": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n");
    let choice = |body: &mut String, delta: std::fmt::Arguments<'_>, reason: &str, usage: &str| {
        data(
            body,
            format_args!(
                "{{\"id\":\"gen-1748000000-x1Yb2Zc3\",\"provider\":\"Anthropic\",\"model\":\"anthropic/claude-sonnet-4\",\
             \"object\":\"chat.completion.chunk\",\"created\":1748000000,\"choices\":[{{\"index\":0,\
             \"delta\":{{\"role\":\"assistant\",{delta}}},\"finish_reason\":{reason},\"native_finish_reason\":{reason},\
             \"logprobs\":null}}]{usage}}}"
            ),
        );
    };
    for piece in pieces(THOUGHT_PIECES) {
        choice(
            &mut body,
            format_args!(
                "\"content\":\"\",\"reasoning\":\"{piece}\",\"reasoning_details\":[{{\"type\":\"reasoning.text\",\
                 \"text\":\"{piece}\",\"format\":\"anthropic-claude-v1\",\"index\":0}}]"
            ),
            "null",
            "",
        );
    }
    choice(
        &mut body,
        format_args!(
            "\"content\":\"\",\"reasoning\":null,\"reasoning_details\":[{{\"type\":\"reasoning.text\",\
             \"signature\":\"{}\",\"format\":\"anthropic-claude-v1\",\"index\":0}}]",
            "EqQBCkYIBBgCKkAbEd".repeat(20)
        ),
        "null",
        "",
    );
    for piece in pieces(TEXT_PIECES) {
        choice(&mut body, format_args!("\"content\":\"{piece}\""), "null", "");
    }
    let usage = ",\"usage\":{\"prompt_tokens\":52,\"completion_tokens\":480,\"total_tokens\":532,\"cost\":0.0074,\
                 \"is_byok\":false,\"prompt_tokens_details\":{\"cached_tokens\":0},\
                 \"completion_tokens_details\":{\"reasoning_tokens\":80}}";
    choice(&mut body, format_args!("\"content\":\"\""), "\"stop\"", usage);
    body + "data: [DONE]\n\n"
}

/// Responses of `OpenAI`.
pub(super) fn responses() -> String {
    let mut events = Events::default();
    let head = "\"id\":\"resp_68c1\",\"object\":\"response\",\"created_at\":1757000000,\"background\":false,\
                \"error\":null,\"incomplete_details\":null,\"instructions\":null,\"max_output_tokens\":null,\
                \"model\":\"gpt-5-2025-08-07\",\"parallel_tool_calls\":true,\"previous_response_id\":null,\
                \"reasoning\":{\"effort\":\"medium\",\"summary\":\"detailed\"},\"service_tier\":\"default\",\
                \"store\":true,\"temperature\":1.0,\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"},\
                \"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0,\"truncation\":\"disabled\",\"metadata\":{}";
    for kind in ["response.created", "response.in_progress"] {
        events.push(
            kind,
            format_args!("\"response\":{{{head},\"status\":\"in_progress\",\"output\":[],\"usage\":null}}"),
        );
    }
    let items = [events.thought(), events.message(), events.call()].join(",");
    events.push(
        "response.completed",
        format_args!(
            "\"response\":{{{head},\"status\":\"completed\",\"output\":[{items}],\
             \"usage\":{{\"input_tokens\":52,\"input_tokens_details\":{{\"cached_tokens\":0}},\"output_tokens\":492,\
             \"output_tokens_details\":{{\"reasoning_tokens\":80}},\"total_tokens\":544}}}}"
        ),
    );
    events.body
}

/// The numbered events of a Responses stream.
#[derive(Default)]
struct Events {
    body: String,
    number: usize,
}

impl Events {
    fn push(&mut self, kind: &str, members: std::fmt::Arguments<'_>) {
        let number = self.number;
        let _ = write!(
            self.body,
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number},{members}}}\n\n"
        );
        self.number += 1;
    }

    /// Adds the end of an item and returns the item.
    fn done(&mut self, place: usize, item: String) -> String {
        self.push("response.output_item.done", format_args!("\"output_index\":{place},\"item\":{item}"));
        item
    }

    fn thought(&mut self) -> String {
        let whole: String = pieces(THOUGHT_PIECES).collect();
        let part = "\"item_id\":\"rs_68c1a\",\"output_index\":0,\"summary_index\":0";
        self.push(
            "response.output_item.added",
            format_args!(
                "\"output_index\":0,\"item\":{{\"id\":\"rs_68c1a\",\"type\":\"reasoning\",\"summary\":[]}}"
            ),
        );
        for (place, piece) in pieces(THOUGHT_PIECES).enumerate() {
            let padding = padding(place);
            self.push(
                "response.reasoning_summary_text.delta",
                format_args!("{part},\"delta\":\"{piece}\",\"obfuscation\":\"{padding}\""),
            );
        }
        self.push("response.reasoning_summary_text.done", format_args!("{part},\"text\":\"{whole}\""));
        let summary = format!("{{\"type\":\"summary_text\",\"text\":\"{whole}\"}}");
        self.done(0, format!("{{\"id\":\"rs_68c1a\",\"type\":\"reasoning\",\"summary\":[{summary}]}}"))
    }

    fn message(&mut self) -> String {
        let whole: String = pieces(TEXT_PIECES).collect();
        let place = "\"item_id\":\"msg_68c1b\",\"output_index\":1,\"content_index\":0";
        let part = |text: &str| {
            format!("{{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"{text}\"}}")
        };
        let item = |status: &str, parts: &str| {
            format!(
                "{{\"id\":\"msg_68c1b\",\"type\":\"message\",\"status\":\"{status}\",\"content\":[{parts}],\
                 \"role\":\"assistant\"}}"
            )
        };
        let added = item("in_progress", "");
        self.push("response.output_item.added", format_args!("\"output_index\":1,\"item\":{added}"));
        self.push("response.content_part.added", format_args!("{place},\"part\":{}", part("")));
        for (number, piece) in pieces(TEXT_PIECES).enumerate() {
            let padding = padding(number);
            self.push(
                "response.output_text.delta",
                format_args!("{place},\"delta\":\"{piece}\",\"logprobs\":[],\"obfuscation\":\"{padding}\""),
            );
        }
        self.push("response.output_text.done", format_args!("{place},\"text\":\"{whole}\",\"logprobs\":[]"));
        self.push("response.content_part.done", format_args!("{place},\"part\":{}", part(&whole)));
        self.done(1, item("completed", &part(&whole)))
    }

    fn call(&mut self) -> String {
        let arguments = ARGUMENTS.concat();
        let place = "\"item_id\":\"fc_68c1c\",\"output_index\":2";
        let item = |arguments: &str, status: &str| {
            format!(
                "{{\"id\":\"fc_68c1c\",\"type\":\"function_call\",\"status\":\"{status}\",\
                 \"arguments\":\"{arguments}\",\"call_id\":\"call_9wLk2mQ\",\"name\":\"weather\"}}"
            )
        };
        let added = item("", "in_progress");
        self.push("response.output_item.added", format_args!("\"output_index\":2,\"item\":{added}"));
        for (number, piece) in ARGUMENTS.into_iter().enumerate() {
            let padding = padding(number);
            self.push(
                "response.function_call_arguments.delta",
                format_args!("{place},\"delta\":\"{piece}\",\"obfuscation\":\"{padding}\""),
            );
        }
        self.push(
            "response.function_call_arguments.done",
            format_args!("{place},\"arguments\":\"{arguments}\""),
        );
        self.done(2, item(&arguments, "completed"))
    }
}

/// Appends an event of a Messages stream.
fn messages_event(body: &mut String, kind: &str, members: std::fmt::Arguments<'_>) {
    let _ = write!(body, "event: {kind}\ndata: {{\"type\":\"{kind}\"{members}}}\n\n");
}

/// Appends a delta of a content block to a Messages stream.
fn messages_delta(body: &mut String, index: u32, kind: &str, member: &str, piece: &str) {
    messages_event(
        body,
        "content_block_delta",
        format_args!(",\"index\":{index},\"delta\":{{\"type\":\"{kind}\",\"{member}\":\"{piece}\"}}"),
    );
}

/// Messages of Anthropic.
pub(super) fn messages() -> String {
    let mut body = String::new();
    messages_event(
        &mut body,
        "message_start",
        format_args!(
            ",\"message\":{{\"id\":\"msg_01AbCdEfGhIjKlMnOpQr\",\"type\":\"message\",\"role\":\"assistant\",\
         \"model\":\"claude-sonnet-4-20250514\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\
         \"usage\":{{\"input_tokens\":52,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\
         \"output_tokens\":3,\"service_tier\":\"standard\"}}}}"
        ),
    );
    messages_event(
        &mut body,
        "content_block_start",
        format_args!(
            ",\"index\":0,\"content_block\":{{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}"
        ),
    );
    messages_event(&mut body, "ping", format_args!(""));
    for piece in pieces(THOUGHT_PIECES) {
        messages_delta(&mut body, 0, "thinking_delta", "thinking", piece);
    }
    messages_delta(&mut body, 0, "signature_delta", "signature", &"EqQBCkYIBBgCKkAbEd".repeat(20));
    messages_event(&mut body, "content_block_stop", format_args!(",\"index\":0"));
    messages_event(
        &mut body,
        "content_block_start",
        format_args!(",\"index\":1,\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}"),
    );
    for piece in pieces(TEXT_PIECES) {
        messages_delta(&mut body, 1, "text_delta", "text", piece);
    }
    messages_event(&mut body, "content_block_stop", format_args!(",\"index\":1"));
    messages_event(
        &mut body,
        "content_block_start",
        format_args!(
            ",\"index\":2,\"content_block\":{{\"type\":\"tool_use\",\"id\":\"toolu_01T\",\"name\":\"weather\",\"input\":{{}}}}"
        ),
    );
    for piece in ARGUMENTS {
        messages_delta(&mut body, 2, "input_json_delta", "partial_json", piece);
    }
    messages_event(&mut body, "content_block_stop", format_args!(",\"index\":2"));
    messages_event(
        &mut body,
        "message_delta",
        format_args!(
            ",\"delta\":{{\"stop_reason\":\"tool_use\",\"stop_sequence\":null}},\"usage\":{{\"output_tokens\":492}}"
        ),
    );
    messages_event(&mut body, "message_stop", format_args!(""));
    body
}

/// generateContent of Google: several tokens and the token counts in each frame.
pub(super) fn gemini() -> String {
    let mut body = String::new();
    let frame = |body: &mut String, place: usize, part: std::fmt::Arguments<'_>, end: &str| {
        data(
            body,
            format_args!(
                "{{\"candidates\": [{{\"content\": {{\"parts\": [{part}],\"role\": \"model\"}}{end},\"index\": 0}}],\
             \"usageMetadata\": {{\"promptTokenCount\": 52,\"candidatesTokenCount\": {place},\
             \"totalTokenCount\": {},\"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 52}}],\
             \"thoughtsTokenCount\": 80}},\"modelVersion\": \"gemini-2.5-pro\",\"responseId\": \"n1P6abvRFaKdz7IPkcuQ\"}}",
                place + 132
            ),
        );
    };
    let texts = |count: usize| {
        let pieces: Vec<&str> = pieces(count).collect();
        pieces.chunks(8).map(<[&str]>::concat).collect::<Vec<String>>()
    };
    for (place, text) in texts(THOUGHT_PIECES).iter().enumerate() {
        frame(&mut body, place * 8, format_args!("{{\"text\": \"{text}\",\"thought\": true}}"), "");
    }
    for (place, text) in texts(TEXT_PIECES).iter().enumerate() {
        frame(&mut body, place * 8, format_args!("{{\"text\": \"{text}\"}}"), "");
    }
    frame(
        &mut body,
        TEXT_PIECES,
        format_args!(
            "{{\"functionCall\": {{\"name\": \"weather\",\"args\": {{\"city\": \"Kyoto\",\"days\": 3}}}},\
             \"thoughtSignature\": \"{}\"}}",
            "CiQB0e2Kb1".repeat(20)
        ),
        "",
    );
    frame(&mut body, TEXT_PIECES, format_args!("{{\"text\": \"\"}}"), ",\"finishReason\": \"STOP\"");
    body
}

/// `/api/chat` of Ollama: one JSON document in each line.
pub(super) fn ollama() -> String {
    let mut body = String::new();
    let mut place = 0;
    let mut line = |body: &mut String, message_fields: std::fmt::Arguments<'_>, end: &str| {
        place += 1;
        let _ = writeln!(
            body,
            "{{\"model\":\"qwen3:8b\",\"created_at\":\"2025-07-07T20:22:19.{:09}Z\",\
             \"message\":{{\"role\":\"assistant\",{message_fields}}},\"done\":{end}}}",
            place * 184_003
        );
    };
    for piece in pieces(THOUGHT_PIECES) {
        line(&mut body, format_args!("\"content\":\"\",\"thinking\":\"{piece}\""), "false");
    }
    for piece in pieces(TEXT_PIECES) {
        line(&mut body, format_args!("\"content\":\"{piece}\""), "false");
    }
    line(
        &mut body,
        format_args!(
            "\"content\":\"\",\"tool_calls\":[{{\"function\":{{\"name\":\"weather\",\
             \"arguments\":{{\"city\":\"Kyoto\",\"days\":3}}}}}}]"
        ),
        "false",
    );
    let end = "true,\"done_reason\":\"stop\",\"total_duration\":182242375,\"load_duration\":41295167,\
               \"prompt_eval_count\":169,\"prompt_eval_duration\":24573166,\"eval_count\":15,\"eval_duration\":115959084";
    line(&mut body, format_args!("\"content\":\"\""), end);
    body
}
