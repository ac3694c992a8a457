//! Images: wire formats, capability checks, forms, streams. UPP-1.2 §16.

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::Value;
use turntree::core::http::Multipart;
use turntree::core::json::RawObject;
use turntree::upp::image::{
    EditSource, HttpImageModel, ImageEvent, ImageModel, ImageRequest, ImageResult, edit, generate, stream,
};
use turntree::upp::providers::openai::{openai, openai_image};
use turntree::upp::providers::xai::{xai, xai_image};
use turntree::upp::providers::{embedding_dialect, image_dialect};
use turntree::upp::{CallLayers, ErrorCode, Modality, ProviderConfig};

use crate::support::fixtures::cases;
use crate::support::server::{Server, chunk, event_stream, json as json_body, last_chunk};

fn request_of(case: &Value) -> ImageRequest {
    let read = |name: &str| case.get(name).map(|block| serde_json::from_str(&block.to_string()).unwrap());
    let source = read("image").map(|image| Arc::new(EditSource { image, mask: read("mask") }));
    let params =
        case.get("params").map(|params| serde_json::from_str::<RawObject>(&params.to_string()).unwrap());
    ImageRequest {
        prompt: case["prompt"].as_str().unwrap_or("a fox").into(),
        source,
        params: Arc::new(params.unwrap_or_default()),
    }
}

#[test]
fn requests_encode_to_the_wire_format_of_each_vendor() {
    for case in cases("images/requests.json") {
        let name = &case["name"];
        let wire = image_dialect(case["vendor"].as_str().unwrap()).unwrap();
        let request = request_of(&case);

        let body = wire.encode("model-1", &request, case["streaming"] == true);

        match (body, case["error"].as_str()) {
            (Err(error), Some(words)) => {
                assert_eq!(error.code, ErrorCode::InvalidRequest, "{name}");
                assert!(error.message.contains(words), "{name}: {error}");
            }
            (Ok(body), None) => {
                assert_eq!(wire.path("model-1", &request), case["path"], "{name}");
                let text = std::str::from_utf8(&body.bytes).unwrap();
                if let Some(form) = case["form"].as_str() {
                    assert!(body.content_type.starts_with("multipart/form-data; boundary="), "{name}");
                    assert_eq!(text, form, "{name}");
                } else {
                    assert_eq!(body.content_type, "application/json", "{name}");
                    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), case["wire"], "{name}");
                }
            }
            (body, _) => panic!("{name}: {body:?}"),
        }
    }
}

#[test]
fn responses_decode_to_images() {
    for case in cases("images/answers.json") {
        let name = &case["name"];
        let wire = image_dialect(case["vendor"].as_str().unwrap()).unwrap();

        match (wire.decode(&case["body"].to_string(), &request_of(&case)), case["code"].as_str()) {
            (Ok(result), None) => {
                let text = serde_json::to_string(&result).unwrap();
                assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), case["result"], "{name}");
                assert_eq!(serde_json::from_str::<ImageResult>(&text).unwrap(), result, "{name}: read again");
            }
            (Err(error), Some(code)) => {
                assert_eq!(error.code.as_str(), code, "{name}: {error}");
                assert!(error.message.contains(case["words"].as_str().unwrap()), "{name}: {error}");
            }
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
}

fn model(server: &Server, model_id: &str) -> Arc<dyn ImageModel> {
    let config = ProviderConfig::default().with_base_url(server.url("/v1")).with_key("sk-0123456789");
    Arc::new(HttpImageModel::new(Arc::new(openai()), Arc::new(openai_image()), model_id, config))
}

#[tokio::test]
async fn streams_decode_to_previews_and_images() {
    for case in cases("images/streams.json") {
        let name = &case["name"];
        let frames = case["frames"].as_array().unwrap();
        let body = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect::<Vec<_>>().concat();
        let server = Server::start([vec![event_stream(), chunk(&body), last_chunk()]]).await;

        let mut stream =
            stream(&model(&server, "gpt-image-1"), request_of(&case), CallLayers::default()).unwrap();
        let mut events: Vec<ImageEvent> = Vec::new();
        while let Some(Ok(event)) = stream.next().await {
            events.push(event);
        }

        match (stream.result().await, case["code"].as_str()) {
            (Ok(result), None) => {
                assert_eq!(serde_json::to_value(&*result).unwrap(), case["result"], "{name}");
                assert_eq!(serde_json::to_value(&events).unwrap(), case["events"], "{name}");
            }
            (Err(error), Some(code)) => {
                assert_eq!((error.code.as_str(), error.modality), (code, Modality::Image), "{name}: {error}");
                assert!(error.message.contains(case["words"].as_str().unwrap()), "{name}: {error}");
            }
            (result, _) => panic!("{name}: {result:?}"),
        }
        assert!(server.requests()[0].head.to_lowercase().contains("accept: text/event-stream"), "{name}");
    }
}

#[tokio::test]
async fn an_edit_is_a_multipart_form_at_the_edits_path() {
    let server = Server::start([json_body(r#"{"data":[{"b64_json":"AAEC"}]}"#)]).await;
    let case = &cases("images/requests.json")[2];

    let result = edit(model(&server, "gpt-image-1"), request_of(case), CallLayers::default()).await.unwrap();

    assert_eq!(result.images[0].image.to_bytes().unwrap().as_slice(), [0, 1, 2]);
    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /v1/images/edits HTTP/1.1"), "{}", request.head);
    assert!(
        request.head.contains("multipart/form-data; boundary=turntree-form-boundary"),
        "{}",
        request.head
    );
    let form = case["form"].as_str().unwrap().replace("model-1", "gpt-image-1");
    assert_eq!(String::from_utf8_lossy(&request.body), form);
}

#[tokio::test]
async fn unsupported_calls_are_refused_before_the_first_request() {
    let server = Server::start([]).await;
    let plain = || request_of(&Value::Null);
    let dall_e = model(&server, "dall-e-3");
    let grok: Arc<dyn ImageModel> = Arc::new(HttpImageModel::new(
        Arc::new(xai()),
        Arc::new(xai_image()),
        "grok-2-image",
        ProviderConfig::default(),
    ));
    let errors = [
        edit(Arc::clone(&dall_e), plain(), CallLayers::default()).await.unwrap_err(),
        edit(Arc::clone(&grok), plain(), CallLayers::default()).await.unwrap_err(),
        stream(&dall_e, plain(), CallLayers::default()).unwrap_err(),
        stream(&grok, plain(), CallLayers::default()).unwrap_err(),
        generate(dall_e, ImageRequest { prompt: " ".into(), ..plain() }, CallLayers::default())
            .await
            .unwrap_err(),
        edit(model(&server, "gpt-image-1"), plain(), CallLayers::default()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.code, error.modality), (ErrorCode::InvalidRequest, Modality::Image), "{error}");
    }
}

#[test]
fn each_vendor_has_its_capabilities_and_limits() {
    let of = |provider: &str, model_id: &str| {
        let capabilities = image_dialect(provider).unwrap().capabilities(model_id);
        (capabilities.streaming, capabilities.edit, capabilities.max_images)
    };
    assert_eq!(of("openai", "gpt-image-1"), (true, true, Some(10)));
    assert_eq!(of("openai", "dall-e-2"), (false, true, Some(10)));
    assert_eq!(of("openai", "dall-e-3"), (false, false, Some(1)));
    assert_eq!(of("google", "imagen-4"), (false, false, Some(4)));
    assert_eq!(of("xai", "grok-2-image"), (false, false, Some(10)));
    assert!(image_dialect("anthropic").is_none() && embedding_dialect("anthropic").is_none());
    let limits = |provider: &str, model_id: &str| {
        let limits = embedding_dialect(provider).unwrap().limits(model_id);
        (limits.batch_size, limits.input_length, limits.dimensions)
    };
    assert_eq!(limits("openai", "text-embedding-3-large"), (Some(2048), Some(8191), Some(3072)));
    assert_eq!(limits("openrouter", "openai/text-embedding-3-small"), (Some(2048), Some(8191), Some(1536)));
    assert_eq!(limits("google", "gemini-embedding-001"), (Some(100), Some(2048), Some(3072)));
    assert_eq!(limits("ollama", "nomic-embed-text"), (Some(512), Some(8192), Some(768)));
}

#[test]
fn the_boundary_does_not_occur_in_a_part() {
    let (content_type, body) = Multipart::default()
        .text("a", "--turntree-form-boundary")
        .text("b\"\r\n", "turntree-form-boundary-1-")
        .finish();

    assert_eq!(content_type, "multipart/form-data; boundary=turntree-form-boundary-2-");
    assert!(String::from_utf8_lossy(&body).contains("name=\"b%22%0D%0A\""));
}
