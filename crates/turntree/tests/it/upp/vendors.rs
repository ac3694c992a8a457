//! Vendors with a shared wire format, each with its options. UPP-1.2 §19.0, §19.6–19.9.

use std::sync::Arc;

use serde_json::Value;
use turntree::core::secret::Secret;
use turntree::upp::config::request_url;
use turntree::upp::dialect::Dialect;
use turntree::upp::providers::anthropic::anthropic;
use turntree::upp::providers::cerebras::cerebras;
use turntree::upp::providers::deepseek::{deepseek, deepseek_responses};
use turntree::upp::providers::google::google;
use turntree::upp::providers::groq::groq;
use turntree::upp::providers::mistral::mistral;
use turntree::upp::providers::moonshot::moonshot;
use turntree::upp::providers::ollama::ollama;
use turntree::upp::providers::openai::openai;
use turntree::upp::providers::openai_chat::openai_chat;
use turntree::upp::providers::openrouter::{openrouter, openrouter_responses};
use turntree::upp::providers::responses::responses;
use turntree::upp::providers::xai::{xai, xai_messages, xai_responses};
use turntree::upp::{Capabilities, ErrorCode, ProviderConfig};

use crate::support::fixtures::{
    Make, assert_truncated_frames_do_not_panic, call_over_sockets, cases, decode_and_compare,
    encode_and_compare, errors_and_compare, header,
};

/// The folders of `tests/data/upp` and their dialects.
const FOLDERS: [(&str, Make); 9] = [
    ("groq", |_| Box::new(groq())),
    ("cerebras", |_| Box::new(cerebras())),
    ("moonshot", |_| Box::new(moonshot())),
    ("deepseek", |_| Box::new(deepseek())),
    ("mistral", |_| Box::new(mistral())),
    ("openrouter", |_| Box::new(openrouter())),
    ("xai", |_| Box::new(xai())),
    ("xai_messages", |_| Box::new(xai_messages(&ProviderConfig::default()))),
    ("responses_hosts", host),
];

fn host(options: &Value) -> Box<dyn Dialect> {
    match options["vendor"].as_str() {
        Some("openrouter") => Box::new(openrouter_responses()),
        Some("xai") => Box::new(xai_responses()),
        Some("deepseek") => Box::new(deepseek_responses()),
        _ => Box::new(responses("https://host/v1").unwrap()),
    }
}

#[test]
fn requests_encode_to_the_wire_format_of_each_vendor() {
    for (folder, make) in FOLDERS {
        encode_and_compare(&format!("{folder}/requests.json"), make);
    }
}

#[test]
fn responses_decode_to_messages_complete_and_streamed() {
    for (folder, make) in FOLDERS {
        decode_and_compare(&format!("{folder}/answers.json"), make);
    }
}

#[test]
fn error_bodies_map_to_error_codes() {
    for (folder, make) in FOLDERS {
        errors_and_compare(&format!("{folder}/errors.json"), make);
    }
}

#[test]
fn truncated_frames_are_errors() {
    for (folder, make) in FOLDERS {
        assert_truncated_frames_do_not_panic(&format!("{folder}/answers.json"), make);
    }
}

/// A dialect, its URL, its key variables, and its image, document, video and audio capabilities.
type Vendor = (Box<dyn Dialect>, &'static str, &'static [&'static str], [u8; 4]);

fn vendor(
    dialect: impl Dialect + 'static,
    url: &'static str,
    keys: &'static [&'static str],
    inputs: [u8; 4],
) -> Vendor {
    (Box::new(dialect), url, keys, inputs)
}

/// Vendors with Chat Completions.
fn chat_vendors() -> Vec<Vendor> {
    vec![
        vendor(
            openai_chat(),
            "https://api.openai.com/v1/chat/completions",
            &["OPENAI_API_KEY"],
            [1, 1, 0, 0],
        ),
        vendor(groq(), "https://api.groq.com/openai/v1/chat/completions", &["GROQ_API_KEY"], [1, 0, 0, 0]),
        vendor(
            cerebras(),
            "https://api.cerebras.ai/v1/chat/completions",
            &["CEREBRAS_API_KEY"],
            [0, 0, 0, 0],
        ),
        vendor(
            moonshot(),
            "https://api.moonshot.ai/v1/chat/completions",
            &["MOONSHOT_API_KEY", "KIMI_API_KEY"],
            [1, 0, 1, 0],
        ),
        vendor(deepseek(), "https://api.deepseek.com/chat/completions", &["DEEPSEEK_API_KEY"], [0, 0, 0, 0]),
        vendor(mistral(), "https://api.mistral.ai/v1/chat/completions", &["MISTRAL_API_KEY"], [1, 1, 0, 1]),
        vendor(
            openrouter(),
            "https://openrouter.ai/api/v1/chat/completions",
            &["OPENROUTER_API_KEY"],
            [1, 1, 1, 1],
        ),
        vendor(xai(), "https://api.x.ai/v1/chat/completions", &["XAI_API_KEY"], [1, 0, 0, 0]),
    ]
}

/// Vendors with other formats.
fn other_vendors() -> Vec<Vendor> {
    vec![
        vendor(
            anthropic::<&str>(&[], &ProviderConfig::default()),
            "https://api.anthropic.com/v1/messages",
            &["ANTHROPIC_API_KEY"],
            [1, 1, 0, 0],
        ),
        vendor(openai(), "https://api.openai.com/v1/responses", &["OPENAI_API_KEY"], [1, 1, 0, 0]),
        vendor(
            google(&ProviderConfig::default()),
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
            &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
            [1, 1, 1, 1],
        ),
        vendor(ollama(), "http://localhost:11434/api/chat", &["OLLAMA_API_KEY"], [1, 0, 0, 0]),
        vendor(
            deepseek_responses(),
            "https://api.deepseek.com/responses",
            &["DEEPSEEK_API_KEY"],
            [0, 0, 0, 0],
        ),
        vendor(
            openrouter_responses(),
            "https://openrouter.ai/api/v1/responses",
            &["OPENROUTER_API_KEY"],
            [1, 1, 1, 1],
        ),
        vendor(xai_responses(), "https://api.x.ai/v1/responses", &["XAI_API_KEY"], [1, 0, 0, 0]),
        vendor(
            xai_messages(&ProviderConfig::default()),
            "https://api.x.ai/v1/messages",
            &["XAI_API_KEY"],
            [1, 0, 0, 0],
        ),
        vendor(
            responses("https://host/v1").unwrap(),
            "https://host/v1/responses",
            &["OPENRESPONSES_API_KEY"],
            [1, 1, 1, 1],
        ),
    ]
}

#[test]
fn each_vendor_has_its_url_key_and_input_capabilities() {
    let inputs = |capabilities: Capabilities| {
        [
            capabilities.image_input,
            capabilities.document_input,
            capabilities.video_input,
            capabilities.audio_input,
        ]
        .map(u8::from)
    };
    for (dialect, url, keys, expected) in chat_vendors().into_iter().chain(other_vendors()) {
        assert_eq!(request_url(&dialect.endpoint().base_url, &dialect.path("m", true)), url);
        assert_eq!(dialect.endpoint().key_variables, keys, "{url}");
        assert_eq!(dialect.endpoint().key_is_optional, dialect.provider() == "ollama", "{url}");
        let capabilities = dialect.capabilities();
        assert_eq!(inputs(capabilities), expected, "{url}");
        assert!(capabilities.streaming && capabilities.tools && capabilities.structured_output, "{url}");
        let headers = dialect.endpoint().headers(Some(&Secret::from("k-1")));
        let key_header = headers.iter().find(|(_, value)| value.expose().ends_with("k-1")).unwrap();
        let (name, value) = match dialect.provider() {
            "google" => ("x-goog-api-key", "k-1"),
            _ if url.ends_with("/messages") => ("x-api-key", "k-1"),
            _ => ("authorization", "Bearer k-1"),
        };
        assert_eq!(
            (key_header.0.to_ascii_lowercase().as_str(), key_header.1.expose()),
            (name, value),
            "{url}"
        );
    }
}

#[test]
fn responses_requires_a_base_url() {
    assert_eq!(responses(" ").unwrap_err().code, ErrorCode::InvalidRequest);
}

#[tokio::test]
async fn calls_use_the_path_and_key_of_the_vendor() {
    let vendors: [(&str, Make, &str, usize); 3] = [
        ("openrouter", |_| Box::new(openrouter()), "POST /v1/chat/completions HTTP/1.1", 0),
        ("mistral", |_| Box::new(mistral()), "POST /v1/chat/completions HTTP/1.1", 1),
        ("responses_hosts", host, "POST /v1/responses HTTP/1.1", 0),
    ];
    for (folder, make, line, place) in vendors {
        let answers = cases(&format!("{folder}/answers.json"));
        let case = &answers[place];
        let (requests, _) = call_over_sockets(
            |_| Arc::from(make(&case["options"])),
            |server| ProviderConfig::default().with_base_url(server.url("/v1")).with_key("sk-0123456789"),
            case,
        )
        .await;
        for request in &requests {
            assert!(request.head.starts_with(line), "{}", request.head);
            assert_eq!(header(request, "authorization"), ["Bearer sk-0123456789"]);
        }
    }
}
