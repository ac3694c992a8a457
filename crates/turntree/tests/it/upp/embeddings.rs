//! Embeddings: wire formats, batches, progress, aborts, recorded traffic. UPP-1.2 §15.

use base64::Engine as _;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turntree::upp::embedding::EmbeddingDialect as _;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use turntree::core::json::RawObject;
use turntree::upp::dialect::Dialect as _;
use turntree::upp::embedding::{
    EmbedOptions, Embedding, EmbeddingInput, EmbeddingInputType, EmbeddingLimits, EmbeddingModel,
    EmbeddingRequest, EmbeddingResult, EmbeddingUsage, HttpEmbeddingModel, embed,
};
use turntree::upp::providers::openai::{openai, openai_embedding};
use turntree::upp::providers::{embedding_dialect, openai_compatible::openai_compatible_embedding};
use turntree::upp::{ErrorCode, Modality, ProviderConfig, UppError};

use crate::support::fixtures::{cases, exchanges};
use crate::support::server::{Server, json as json_body};

fn params(value: &Value) -> Arc<RawObject> {
    Arc::new(if value.is_null() {
        RawObject::new()
    } else {
        serde_json::from_str(&value.to_string()).unwrap()
    })
}

fn texts(count: usize) -> Vec<EmbeddingInput> {
    (0..count).map(|number| format!("text {number}").into()).collect()
}

#[test]
fn requests_encode_to_the_wire_format_of_each_vendor() {
    for case in cases("embeddings/requests.json") {
        let name = &case["name"];
        let wire = embedding_dialect(case["vendor"].as_str().unwrap()).unwrap();
        let inputs = case["inputs"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().into());
        let request = EmbeddingRequest {
            inputs: inputs.collect(),
            params: params(&case["params"]),
            input_type: match case["input_type"].as_str() {
                Some("query") => Some(EmbeddingInputType::Query),
                Some(_) => Some(EmbeddingInputType::Document),
                None => None,
            },
        };

        let body = String::from_utf8(wire.encode("model-1", &request).unwrap()).unwrap();

        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), case["wire"], "{name}\n{body}");
        assert_eq!(wire.path("model-1"), case["path"], "{name}");
    }
}

#[test]
fn responses_decode_to_vectors() {
    for case in cases("embeddings/answers.json") {
        let name = &case["name"];
        let wire = embedding_dialect(case["vendor"].as_str().unwrap()).unwrap();

        let result = wire.decode(&case["body"].to_string());

        match (result, case["code"].as_str()) {
            (Ok(result), None) => {
                let text = serde_json::to_string(&result).unwrap();
                assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), case["result"], "{name}");
                assert_eq!(
                    serde_json::from_str::<EmbeddingResult>(&text).unwrap(),
                    result,
                    "{name}: read again"
                );
            }
            (Err(error), Some(code)) => {
                assert_eq!(error.code.as_str(), code, "{name}: {error}");
                assert!(error.message.contains(case["words"].as_str().unwrap()), "{name}: {error}");
            }
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
}

/// A model whose later calls return earlier; counts the concurrent calls.
#[derive(Debug, Default)]
struct SlowModel {
    calls: Mutex<Vec<usize>>,
    running: Arc<AtomicUsize>,
    max_running: Arc<AtomicUsize>,
    fails_at: Option<usize>,
    answers: Option<usize>,
    images: bool,
}

impl EmbeddingModel for SlowModel {
    fn model_id(&self) -> &'static str {
        "slow"
    }

    fn provider(&self) -> &'static str {
        "tests"
    }

    fn limits(&self) -> EmbeddingLimits {
        EmbeddingLimits { batch_size: Some(3), image_input: self.images, ..EmbeddingLimits::default() }
    }

    fn embed(&self, request: EmbeddingRequest) -> BoxFuture<'static, Result<EmbeddingResult, UppError>> {
        let number = self.calls.lock().unwrap().len();
        self.calls.lock().unwrap().push(request.inputs.len());
        let (running, max_running) = (Arc::clone(&self.running), Arc::clone(&self.max_running));
        let fails = self.fails_at == Some(number);
        let count = self.answers.unwrap_or(request.inputs.len());
        Box::pin(async move {
            max_running.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(60_u64.saturating_sub(number as u64))).await;
            running.fetch_sub(1, Ordering::SeqCst);
            if fails {
                return Err(UppError::new(ErrorCode::RateLimited, "tests", "slow down"));
            }
            // Not in input order.
            let vectors = (0..count).rev().map(|place| Arc::new(Embedding::new(vec![0.5].into(), place)));
            let metadata = json!({"tests": {"same": 1, "call": number}}).to_string();
            Ok(EmbeddingResult {
                embeddings: vectors.collect(),
                usage: EmbeddingUsage { total_tokens: 10, ..EmbeddingUsage::default() },
                metadata: serde_json::from_str(&metadata).unwrap(),
                ..EmbeddingResult::default()
            })
        })
    }
}

fn options(concurrency: usize) -> EmbedOptions {
    EmbedOptions { concurrency: NonZeroUsize::new(concurrency).unwrap(), ..EmbedOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn inputs_beyond_the_batch_limit_become_several_calls_in_order() {
    let model = Arc::new(SlowModel::default());

    let mut stream = embed(model.clone(), texts(8), Arc::default(), options(2)).unwrap();
    let mut seen = Vec::new();
    while let Some(progress) = stream.next().await {
        let progress = progress.unwrap();
        seen.push((progress.completed, progress.total, progress.embeddings.len()));
    }
    let result = stream.result().await.unwrap();

    assert_eq!(*model.calls.lock().unwrap(), [3, 3, 2]);
    assert_eq!(seen, [(3, 8, 3), (6, 8, 3), (8, 8, 2)]);
    assert_eq!(model.max_running.load(Ordering::SeqCst), 2);
    assert_eq!(result.embeddings.iter().map(|e| e.index).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(result.usage.total_tokens, 30);
    let metadata = serde_json::to_value(&result.metadata).unwrap();
    assert_eq!(metadata, json!({"tests": {"same": 1, "call": [0, 1, 2]}}));
}

#[tokio::test(start_paused = true)]
async fn the_batch_size_is_limited_by_the_model() {
    for (batch_size, calls) in [(2, vec![2, 2]), (100, vec![3, 1])] {
        let model = Arc::new(SlowModel::default());
        let options = EmbedOptions { batch_size: NonZeroUsize::new(batch_size), ..EmbedOptions::default() };

        embed(model.clone(), texts(4), Arc::default(), options).unwrap().result().await.unwrap();

        assert_eq!(*model.calls.lock().unwrap(), calls);
        assert_eq!(model.max_running.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_stream_and_starts_no_further_calls() {
    let model = Arc::new(SlowModel::default());
    let mut stream = embed(model.clone(), texts(9), Arc::default(), options(1)).unwrap();
    stream.next().await.unwrap().unwrap();

    stream.abort();

    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!((error.code, error.modality), (ErrorCode::Cancelled, Modality::Embedding));
    assert!(stream.next().await.is_none());
    assert_eq!(stream.result().await.unwrap_err().code, ErrorCode::Cancelled);
    assert!(model.calls.lock().unwrap().len() < 3);
}

#[tokio::test(start_paused = true)]
async fn an_abort_from_another_task_wakes_the_waiting_task() {
    let mut stream = embed(Arc::new(SlowModel::default()), texts(1), Arc::default(), options(1)).unwrap();
    let token = stream.abort_token().clone();
    let waiting = tokio::spawn(async move { stream.result().await });
    tokio::time::sleep(Duration::from_secs(1)).await;

    token.cancel();

    assert_eq!(waiting.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_failed_batch_ends_the_stream_with_its_error() {
    let model = Arc::new(SlowModel { fails_at: Some(1), ..SlowModel::default() });
    let mut stream = embed(model, texts(9), Arc::default(), options(1)).unwrap();

    assert!(stream.next().await.unwrap().is_ok());
    let error = stream.next().await.unwrap().unwrap_err();

    assert_eq!((error.code, error.modality), (ErrorCode::RateLimited, Modality::Embedding));
    assert_eq!(stream.result().await.unwrap_err().message, "slow down");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_number_of_vectors_is_an_error() {
    let model = Arc::new(SlowModel { answers: Some(2), ..SlowModel::default() });

    let error = embed(model, texts(3), Arc::default(), options(1)).unwrap().result().await.unwrap_err();

    assert_eq!(error.code, ErrorCode::InvalidResponse);
    assert!(error.message.contains("2 vectors for 3 inputs"), "{error}");
}

#[test]
fn invalid_inputs_are_refused_before_the_first_request() {
    let image = serde_json::from_str(
        r#"{"type":"image","source":{"type":"url","url":"https://h/a.png"},"mimeType":"image/png"}"#,
    );
    let image = EmbeddingInput::Image(Box::new(image.unwrap()));
    for (inputs, words) in [
        (vec![], "the list is empty"),
        (vec!["a".into(), "".into()], "inputs[1] is empty"),
        (vec![image.clone()], "does not support image input"),
    ] {
        let model = Arc::new(SlowModel::default());
        let error = embed(model.clone(), inputs, Arc::default(), options(1)).unwrap_err();

        assert_eq!((error.code, error.modality), (ErrorCode::InvalidRequest, Modality::Embedding));
        assert!(error.message.contains(words), "{error}");
        assert!(model.calls.lock().unwrap().is_empty());
    }
    let with_images = Arc::new(SlowModel { images: true, ..SlowModel::default() });
    assert!(embed(with_images, vec![image], Arc::default(), options(1)).is_ok());
}

#[tokio::test]
async fn calls_use_path_and_key_of_the_vendor_and_errors_have_the_modality() {
    let answer = r#"{"data":[{"index":0,"embedding":[0.5]}],"usage":{"total_tokens":1}}"#;
    let server = Server::start([json_body(answer), json_body("{}")]).await;
    let config = ProviderConfig::default().with_base_url(server.url("/v1")).with_key("sk-0123456789");
    let model: Arc<dyn EmbeddingModel> =
        Arc::new(HttpEmbeddingModel::new(Arc::new(openai()), Arc::new(openai_embedding()), "m", config));

    let call = || embed(Arc::clone(&model), texts(1), Arc::default(), EmbedOptions::default()).unwrap();
    let result = call().result().await.unwrap();
    let error = call().result().await.unwrap_err();

    assert_eq!(result.embeddings[0].vector, vec![0.5].into());
    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /v1/embeddings HTTP/1.1"), "{}", request.head);
    assert!(request.head.to_lowercase().contains("authorization: bearer sk-0123456789"));
    assert_eq!((error.code, error.modality), (ErrorCode::InvalidResponse, Modality::Embedding));
    assert_eq!(error.status_code, Some(200));
}

/// Recordings have the length of a vector, not its data; zeros replace the data.
fn with_vectors(body: &Value) -> Value {
    let mut body = body.clone();
    for item in body["data"].as_array_mut().into_iter().flatten() {
        let length = item["embedding"].as_str().and_then(|blob| blob.rsplit(':').next()?.parse().ok());
        let bytes: usize = length.map_or(0, |length: usize| length / 4 * 3 / 4 * 4);
        let zeros = base64::engine::general_purpose::STANDARD.encode(vec![0_u8; bytes]);
        item["embedding"] = zeros.into();
    }
    body
}

#[test]
fn recorded_embeddings_decode_and_encode_as_recorded() {
    let Some(exchanges) = exchanges("embeddings") else { return };
    let mut read = 0;
    for (name, exchange) in &exchanges {
        let (request, response) = (&exchange["request"]["body"], &exchange["response"]);
        let is_openai = exchange["request"]["host"] == "api.openai.com";
        let wire = if is_openai { openai_embedding() } else { openai_compatible_embedding() };
        let status = u16::try_from(response["status"].as_u64().unwrap()).unwrap();
        if status != 200 {
            let (code, words) = openai().error_of_body(status, &response["body"].to_string()).unwrap();
            assert_eq!(code, ErrorCode::ModelNotFound, "{name}");
            assert_eq!(words, response["body"]["error"]["message"], "{name}");
            continue;
        }

        let result = wire.decode(&with_vectors(&response["body"]).to_string()).unwrap();
        let decoded_request = EmbeddingRequest {
            inputs: request["input"]
                .as_array()
                .unwrap()
                .iter()
                .map(|text| text.as_str().unwrap().into())
                .collect(),
            params: params(request),
            input_type: None,
        };
        let body = wire.encode(request["model"].as_str().unwrap(), &decoded_request).unwrap();

        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), *request, "{name}");
        assert_eq!(result.embeddings.len(), decoded_request.inputs.len(), "{name}");
        assert_eq!(result.usage.total_tokens, response["body"]["usage"]["total_tokens"].as_u64().unwrap());
        let expected = if is_openai { 1536 } else { 1024 };
        assert!(result.embeddings.iter().all(|embedding| embedding.dimensions == expected), "{name}");
        read += 1;
    }
    println!("embeddings: {read} of {} exchanges read, the others are errors", exchanges.len());
    assert!(read > 0);
}
