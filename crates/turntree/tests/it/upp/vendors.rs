//! The vendors whose wires are shared, each by its own data. UPP-1.2 §19.0, §19.6–19.9.

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
    Make, call_over_sockets, cases, decode_and_compare, encode_and_compare, errors_and_compare, header,
    survives_cut_frames,
};

/// The folders of `tests/data/upp` and whose they are.
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
fn requests_become_each_vendors_wire() {
    for (folder, make) in FOLDERS {
        encode_and_compare(&format!("{folder}/requests.json"), make);
    }
}

#[test]
fn answers_become_messages_whole_and_streamed() {
    for (folder, make) in FOLDERS {
        decode_and_compare(&format!("{folder}/answers.json"), make);
    }
}

#[test]
fn errors_become_codes() {
    for (folder, make) in FOLDERS {
        errors_and_compare(&format!("{folder}/errors.json"), make);
    }
}

#[test]
fn cut_frames_are_no_answer() {
    for (folder, make) in FOLDERS {
        survives_cut_frames(&format!("{folder}/answers.json"), make);
    }
}

/// A dialect, its endpoint, its keys, and whether it takes images, documents, film and sound.
type Vendor<'a> = (&'a dyn Dialect, &'a str, &'a [&'a str], [u8; 4]);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of vendors")]
fn each_vendor_has_its_endpoint_its_key_and_its_senses() {
    let senses = |capabilities: Capabilities| {
        [
            capabilities.image_input,
            capabilities.document_input,
            capabilities.video_input,
            capabilities.audio_input,
        ]
        .map(u8::from)
    };
    let xai_messages = xai_messages(&ProviderConfig::default());
    let google = google(&ProviderConfig::default());
    let anthropic = anthropic::<&str>(&[], &ProviderConfig::default());
    let vendors: [Vendor<'_>; 17] = [
        (&anthropic, "https://api.anthropic.com/v1/messages", &["ANTHROPIC_API_KEY"], [1, 1, 0, 0]),
        (&openai(), "https://api.openai.com/v1/responses", &["OPENAI_API_KEY"], [1, 1, 0, 0]),
        (&openai_chat(), "https://api.openai.com/v1/chat/completions", &["OPENAI_API_KEY"], [1, 1, 0, 0]),
        (
            &google,
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
            &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
            [1, 1, 1, 1],
        ),
        (&ollama(), "http://localhost:11434/api/chat", &["OLLAMA_API_KEY"], [1, 0, 0, 0]),
        (&groq(), "https://api.groq.com/openai/v1/chat/completions", &["GROQ_API_KEY"], [1, 0, 0, 0]),
        (&cerebras(), "https://api.cerebras.ai/v1/chat/completions", &["CEREBRAS_API_KEY"], [0, 0, 0, 0]),
        (
            &moonshot(),
            "https://api.moonshot.ai/v1/chat/completions",
            &["MOONSHOT_API_KEY", "KIMI_API_KEY"],
            [1, 0, 1, 0],
        ),
        (&deepseek(), "https://api.deepseek.com/chat/completions", &["DEEPSEEK_API_KEY"], [0, 0, 0, 0]),
        (&deepseek_responses(), "https://api.deepseek.com/responses", &["DEEPSEEK_API_KEY"], [0, 0, 0, 0]),
        (&mistral(), "https://api.mistral.ai/v1/chat/completions", &["MISTRAL_API_KEY"], [1, 1, 0, 1]),
        (
            &openrouter(),
            "https://openrouter.ai/api/v1/chat/completions",
            &["OPENROUTER_API_KEY"],
            [1, 1, 1, 1],
        ),
        (
            &openrouter_responses(),
            "https://openrouter.ai/api/v1/responses",
            &["OPENROUTER_API_KEY"],
            [1, 1, 1, 1],
        ),
        (&xai(), "https://api.x.ai/v1/chat/completions", &["XAI_API_KEY"], [1, 0, 0, 0]),
        (&xai_responses(), "https://api.x.ai/v1/responses", &["XAI_API_KEY"], [1, 0, 0, 0]),
        (&xai_messages, "https://api.x.ai/v1/messages", &["XAI_API_KEY"], [1, 0, 0, 0]),
        (
            &responses("https://host/v1").unwrap(),
            "https://host/v1/responses",
            &["OPENRESPONSES_API_KEY"],
            [1, 1, 1, 1],
        ),
    ];
    for (dialect, url, keys, sensed) in vendors {
        assert_eq!(request_url(&dialect.endpoint().base_url, &dialect.path("m", true)), url);
        assert_eq!(dialect.endpoint().key_variables, keys, "{url}");
        assert_eq!(dialect.endpoint().key_is_optional, dialect.provider() == "ollama", "{url}");
        let capabilities = dialect.capabilities();
        assert_eq!(senses(capabilities), sensed, "{url}");
        assert!(capabilities.streaming && capabilities.tools && capabilities.structured_output, "{url}");
        let headers = dialect.endpoint().headers(Some(&Secret::from("k-1")));
        let of_key = headers.iter().find(|(_, value)| value.expose().ends_with("k-1")).unwrap();
        let (name, value) = match dialect.provider() {
            "google" => ("x-goog-api-key", "k-1"),
            _ if url.ends_with("/messages") => ("x-api-key", "k-1"),
            _ => ("authorization", "Bearer k-1"),
        };
        assert_eq!((of_key.0.to_ascii_lowercase().as_str(), of_key.1.expose()), (name, value), "{url}");
    }
}

#[test]
fn responses_needs_a_host() {
    assert_eq!(responses(" ").unwrap_err().code, ErrorCode::InvalidRequest);
}

#[tokio::test]
async fn calls_reach_the_vendors_path_with_its_key() {
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
