//! Middleware around embedding and image calls: order of hooks, changed requests, failures, aborts. UPP-1.2 §17.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, poll_immediate};
use serde_json::json;
use turntree::core::json::RawObject;
use turntree::core::telemetry::{Attributes, Operation, Outcome, Span, SpanKind, Tracer};
use turntree::upp::embedding::{
    EmbedOptions, Embedding, EmbeddingInput, EmbeddingLimits, EmbeddingModel, EmbeddingRequest,
    EmbeddingResult, EmbeddingUsage, embed,
};
use turntree::upp::image::{
    GeneratedImage, ImageCapabilities, ImageEvent, ImageModel, ImageRequest, ImageResult, ImageSteps, edit,
    generate, stream,
};
use turntree::upp::middleware::hooks::HookFuture;
use turntree::upp::middleware::{CallContext, Middleware, MiddlewareStack, Request, Response};
use turntree::upp::result_stream::Step;
use turntree::upp::{CallLayers, ErrorCode, Modality, UppError};

/// Returns one vector for each input after a second, at most two inputs for each call; fails for the input `fail`.
#[derive(Debug, Default)]
struct VectorModel {
    requests: Arc<Mutex<Vec<String>>>,
}

impl EmbeddingModel for VectorModel {
    fn model_id(&self) -> &'static str {
        "vectors"
    }

    fn provider(&self) -> &'static str {
        "tests"
    }

    fn limits(&self) -> EmbeddingLimits {
        EmbeddingLimits { batch_size: Some(2), ..EmbeddingLimits::default() }
    }

    fn embed(&self, request: EmbeddingRequest) -> BoxFuture<'static, Result<EmbeddingResult, UppError>> {
        let texts = request.inputs.iter().filter_map(EmbeddingInput::as_text);
        self.requests.lock().unwrap().push(texts.collect::<Vec<_>>().join("+"));
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if request.inputs.iter().any(|input| input.as_text() == Some("fail")) {
                return Err(UppError::new(ErrorCode::RateLimited, "tests", "slow down"));
            }
            let vectors = (0..request.inputs.len()).map(|n| Arc::new(Embedding::new(vec![0.5].into(), n)));
            let usage =
                EmbeddingUsage { total_tokens: request.inputs.len() as u64, ..EmbeddingUsage::default() };
            Ok(EmbeddingResult { embeddings: vectors.collect(), usage, ..EmbeddingResult::default() })
        })
    }
}

/// Returns one image; a stream has one event for each word of the prompt.
#[derive(Debug, Default)]
struct PictureModel {
    requests: Arc<Mutex<Vec<String>>>,
}

fn picture() -> GeneratedImage {
    let block =
        json!({"type": "image", "source": {"type": "base64", "data": "AAEC"}, "mimeType": "image/png"});
    GeneratedImage::new(serde_json::from_value(block).unwrap())
}

impl ImageModel for PictureModel {
    fn model_id(&self) -> &'static str {
        "pictures"
    }

    fn provider(&self) -> &'static str {
        "tests"
    }

    fn capabilities(&self) -> ImageCapabilities {
        ImageCapabilities { generate: true, streaming: true, edit: true, max_images: None }
    }

    fn generate(&self, request: ImageRequest) -> BoxFuture<'static, Result<ImageResult, UppError>> {
        self.requests.lock().unwrap().push(request.prompt.to_string());
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if &*request.prompt == "fail" {
                return Err(UppError::new(ErrorCode::ContentFiltered, "tests", "no"));
            }
            Ok(ImageResult { images: vec![picture()], ..ImageResult::default() })
        })
    }

    fn stream(&self, request: ImageRequest) -> ImageSteps {
        self.requests.lock().unwrap().push(request.prompt.to_string());
        let words: Vec<String> = request.prompt.split(' ').map(str::to_owned).collect();
        let event = |(place, word): (usize, String)| {
            if word == "fail" {
                return Err(UppError::new(ErrorCode::ContentFiltered, "tests", "no"));
            }
            let event = json!({"type": "complete", "image": picture(), "index": place});
            Ok(Step::Event(serde_json::from_value::<ImageEvent>(event).unwrap()))
        };
        let done =
            Ok(Step::Done(Arc::new(ImageResult { images: vec![picture()], ..ImageResult::default() })));
        let steps: Vec<_> = words.into_iter().enumerate().map(event).chain([done]).collect();
        Box::pin(futures_util::stream::iter(steps))
    }
}

/// Records its hooks, adds an input in `on_request`, and fails in the hook `fails_in`.
#[derive(Debug, Default)]
struct Recorder {
    name: &'static str,
    log: Arc<Mutex<Vec<String>>>,
    adds: Option<&'static str>,
    fails_in: &'static str,
}

impl Recorder {
    fn record(&self, hook: &str, context: &CallContext) -> HookFuture<'static> {
        self.log.lock().unwrap().push(format!("{}{hook}", self.name));
        assert!(context.start_time.milliseconds() > 0);
        let failed =
            (self.fails_in == hook).then(|| UppError::new(ErrorCode::InvalidRequest, "tests", "hook"));
        // The hook yields once.
        Box::pin(async move {
            tokio::task::yield_now().await;
            failed.map_or(Ok(()), Err)
        })
    }
}

impl Middleware for Recorder {
    fn on_start<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.record("start", context)
    }
    fn on_request<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        match (context.request(), self.adds) {
            (Request::Embedding(request), Some(text)) => {
                let inputs = request.inputs.iter().cloned().chain([text.into()]).collect();
                context.set_request(Request::Embedding(EmbeddingRequest { inputs, ..request }));
            }
            (Request::Image(request), Some(text)) => {
                let prompt = format!("{} {text}", request.prompt).trim().into();
                context.set_request(Request::Image(ImageRequest { prompt, ..request }));
            }
            _ => {}
        }
        self.record("request", context)
    }
    fn on_response<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        assert!(matches!(context.response(), Some(Response::Embedding(_) | Response::Image(_))));
        self.record("response", context)
    }
    fn on_end<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        assert!(context.end_time().is_some());
        self.record("end", context)
    }
    fn on_error<'a>(&'a self, error: &'a UppError, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        assert_eq!(error.modality, context.modality);
        self.record(&format!("error:{}", error.code.as_str()), context)
    }
    fn on_abort<'a>(&'a self, error: &'a UppError, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        assert_eq!(error.code, ErrorCode::Cancelled);
        self.record("abort", context)
    }
    fn on_stream_end<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        unreachable!("events of embeddings and images have no hooks")
    }
}

type Log = Arc<Mutex<Vec<String>>>;

fn chain(recorder: Recorder) -> (MiddlewareStack, Log) {
    let log = Arc::clone(&recorder.log);
    (MiddlewareStack::from_iter([Arc::new(recorder) as Arc<dyn Middleware>]), log)
}

fn entries(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

fn inputs(texts: &[&str]) -> Vec<EmbeddingInput> {
    texts.iter().map(|text| (*text).into()).collect()
}

fn options(middleware: MiddlewareStack, chunked: bool) -> EmbedOptions {
    EmbedOptions { layers: middleware.into(), chunked, ..EmbedOptions::default() }
}

fn prompt(text: &str) -> ImageRequest {
    ImageRequest { prompt: text.into(), source: None, params: Arc::new(RawObject::new()) }
}

#[tokio::test(start_paused = true)]
async fn hooks_run_once_for_all_batches_and_can_change_the_inputs() {
    let log = Log::default();
    let recorder = |name, adds| {
        Arc::new(Recorder { name, adds, log: Arc::clone(&log), ..Recorder::default() }) as Arc<dyn Middleware>
    };
    let chain = MiddlewareStack::from_iter([recorder("1", Some("c")), recorder("2", None)]);
    let model = Arc::new(VectorModel::default());

    let mut stream = embed(model.clone(), inputs(&["a", "b"]), Arc::default(), options(chain, true)).unwrap();
    let first = stream.next().await.unwrap().unwrap();
    let before_the_end = entries(&log);
    let result = stream.result().await.unwrap();

    assert_eq!(*model.requests.lock().unwrap(), ["a+b", "c"]);
    assert_eq!((first.completed, first.total, result.embeddings.len()), (2, 3, 3));
    assert_eq!(before_the_end, ["1start", "2start", "1request", "2request"]);
    assert_eq!(entries(&log)[4..], ["2response", "1response", "2end", "1end"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_calls_on_error_once_at_every_stage() {
    for (texts, fails_in, expected) in [
        (vec!["a", "b", "fail"], "", vec!["start", "request", "error:RATE_LIMITED"]),
        (vec![], "", vec!["start", "request", "error:INVALID_REQUEST"]),
        (vec!["a"], "request", vec!["start", "request", "error:INVALID_REQUEST"]),
        (vec!["a"], "end", vec!["start", "request", "response", "end", "error:INVALID_REQUEST"]),
    ] {
        for chunked in [false, true] {
            let (chain, log) = chain(Recorder { fails_in, ..Recorder::default() });
            let model = Arc::new(VectorModel::default());

            let stream = embed(model, inputs(&texts), Arc::default(), options(chain, chunked));
            stream.unwrap().result().await.unwrap_err();

            assert_eq!(entries(&log), expected, "{texts:?} {fails_in}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_aborted_or_dropped_stream_calls_on_abort_once() {
    for drops in [false, true] {
        let (chain, log) = chain(Recorder::default());
        let model = Arc::new(VectorModel::default());
        let mut stream =
            embed(model.clone(), inputs(&["a", "b", "c"]), Arc::default(), options(chain, true)).unwrap();
        stream.next().await.unwrap().unwrap();

        if drops {
            drop(stream);
            tokio::time::sleep(Duration::from_secs(1)).await;
        } else {
            stream.abort();
            let error = stream.next().await.unwrap().unwrap_err();
            assert_eq!((error.code, error.modality), (ErrorCode::Cancelled, Modality::Embedding));
            assert!(stream.next().await.is_none());
        }

        assert_eq!(entries(&log), ["start", "request", "abort"], "dropped: {drops}");
        assert_eq!(*model.requests.lock().unwrap(), ["a+b"], "dropped: {drops}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_without_streaming_calls_on_error() {
    let (chain, log) = chain(Recorder::default());
    let mut stream =
        embed(Arc::new(VectorModel::default()), inputs(&["a"]), Arc::default(), options(chain, false))
            .unwrap();

    let waited = tokio::time::timeout(Duration::from_millis(10), stream.result()).await;
    drop(stream);
    tokio::time::sleep(Duration::from_secs(1)).await;

    assert!(waited.is_err());
    assert_eq!(entries(&log), ["start", "request", "error:CANCELLED"]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_during_on_end_has_no_effect() {
    let (chain, log) = chain(Recorder::default());
    let mut stream =
        embed(Arc::new(VectorModel::default()), inputs(&["a"]), Arc::default(), options(chain, true))
            .unwrap();
    let token = stream.abort_token().clone();
    stream.next().await.unwrap().unwrap();
    let ends = Arc::clone(&log);
    let aborting = tokio::spawn(async move {
        while entries(&ends).len() < 3 {
            tokio::task::yield_now().await;
        }
        token.cancel();
    });

    let result = stream.result().await.unwrap();

    aborting.await.unwrap();
    assert_eq!(result.embeddings.len(), 1);
    assert_eq!(entries(&log), ["start", "request", "response", "end"]);
}

#[tokio::test(start_paused = true)]
async fn image_calls_run_their_hooks_complete_and_streamed() {
    let all = ["start", "request", "response", "end"];
    let model = Arc::new(PictureModel::default());
    let dyn_model: Arc<dyn ImageModel> = model.clone();

    let (made, log) = chain(Recorder { adds: Some("fox"), ..Recorder::default() });
    generate(Arc::clone(&dyn_model), prompt(""), made).await.unwrap();
    assert_eq!(entries(&log), all);

    let (streamed, log) = chain(Recorder { adds: Some("hen"), ..Recorder::default() });
    let mut events = stream(&dyn_model, prompt("a"), streamed).unwrap();
    assert!(events.next().await.unwrap().is_ok() && events.next().await.unwrap().is_ok());
    assert_eq!(entries(&log), ["start", "request"], "the stream is lazy");
    assert!(events.next().await.is_none());
    assert_eq!(entries(&log), all);

    assert_eq!(*model.requests.lock().unwrap(), ["fox", "a hen"]);
}

#[tokio::test(start_paused = true)]
async fn failed_image_calls_call_on_error_and_aborted_ones_on_abort() {
    let model: Arc<dyn ImageModel> = Arc::new(PictureModel::default());

    let (made, log) = chain(Recorder::default());
    generate(Arc::clone(&model), prompt("fail"), made).await.unwrap_err();
    assert_eq!(entries(&log), ["start", "request", "error:CONTENT_FILTERED"]);

    let (changed, log) = chain(Recorder::default());
    edit(Arc::clone(&model), prompt("no source"), changed).await.unwrap_err();
    assert_eq!(entries(&log), ["start", "request", "error:INVALID_REQUEST"]);

    let (streamed, log) = chain(Recorder::default());
    let mut events = stream(&model, prompt("a fail"), streamed).unwrap();
    assert_eq!(events.result().await.unwrap_err().modality, Modality::Image);
    assert_eq!(entries(&log), ["start", "request", "error:CONTENT_FILTERED"]);

    let (streamed, log) = chain(Recorder::default());
    let mut events = stream(&model, prompt("a fox"), streamed).unwrap();
    events.next().await.unwrap().unwrap();
    events.abort();
    assert_eq!(events.result().await.unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(entries(&log), ["start", "request", "abort"]);
}

/// Records each span as one line: name, attributes, events and outcome.
#[derive(Debug, Clone, Default)]
struct RecordingTracer(Arc<Mutex<Vec<String>>>);

#[derive(Debug)]
struct RecordedSpan(Mutex<String>, RecordingTracer);

fn written(attributes: &Attributes<'_>) -> String {
    attributes.iter().fold(String::new(), |mut text, (name, value)| {
        write!(text, " {name}={value:?}").unwrap();
        text
    })
}

impl Tracer for RecordingTracer {
    fn start(&self, operation: &dyn Operation, parent: Option<&Arc<dyn Span>>) -> Arc<dyn Span> {
        assert!(parent.is_none());
        assert_eq!(operation.kind(), SpanKind::Client);
        let line = format!("{}:{}", operation.name(), written(&operation.attributes()));
        Arc::new(RecordedSpan(Mutex::new(line), self.clone()))
    }
}

impl Span for RecordedSpan {
    fn first_chunk(&self) {
        self.0.lock().unwrap().push_str(" | first chunk");
    }

    fn end(&self, outcome: &dyn Outcome) {
        let failure = outcome.failure().map(|failure| format!(" failed: {}", failure.kind));
        let end = format!(" | end{}{}", written(&outcome.attributes()), failure.unwrap_or_default());
        self.1.0.lock().unwrap().push(self.0.lock().unwrap().clone() + &end);
    }
}

fn traced_layers() -> (CallLayers, Arc<Mutex<Vec<String>>>) {
    let spans = RecordingTracer::default();
    let lines = Arc::clone(&spans.0);
    (CallLayers { tracer: Some(Arc::new(spans)), ..CallLayers::default() }, lines)
}

#[tokio::test(start_paused = true)]
async fn an_embedding_call_with_several_batches_is_one_span() {
    let (layers, spans) = traced_layers();
    let inputs = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<EmbeddingInput>>();
    let call = |texts: &[&str]| {
        let options = EmbedOptions { layers: layers.clone(), ..EmbedOptions::default() };
        embed(Arc::new(VectorModel::default()), inputs(texts), Arc::default(), options).unwrap()
    };

    call(&["a", "b", "c"]).result().await.unwrap();
    call(&["fail"]).result().await.unwrap_err();
    let mut aborted = call(&["a"]);
    assert!(poll_immediate(aborted.next()).await.is_none());
    aborted.abort();
    aborted.result().await.unwrap_err();
    drop(call(&["never polled"]));
    let mut dropped = call(&["a"]);
    assert!(poll_immediate(dropped.next()).await.is_none());
    drop(dropped);

    let start = "embeddings vectors: gen_ai.operation.name=String(\"embeddings\") \
                 gen_ai.provider.name=String(\"tests\") gen_ai.request.model=String(\"vectors\")";
    let ends = [
        " | end gen_ai.usage.input_tokens=Int(3)",
        " | end failed: RATE_LIMITED",
        " | end turntree.aborted=Bool(true)",
        " | end failed: CANCELLED",
    ];
    assert_eq!(*spans.lock().unwrap(), ends.map(|end| format!("{start}{end}")));
}

#[tokio::test(start_paused = true)]
async fn image_calls_are_traced() {
    let (layers, spans) = traced_layers();
    let model: Arc<dyn ImageModel> = Arc::new(PictureModel::default());
    let request = |prompt: &str| ImageRequest { prompt: prompt.into(), source: None, params: Arc::default() };

    generate(Arc::clone(&model), request("a cat"), layers.clone()).await.unwrap();
    generate(Arc::clone(&model), request("fail"), layers.clone()).await.unwrap_err();
    stream(&model, request("a cat"), layers).unwrap().result().await.unwrap();

    let start = "generate_content pictures: gen_ai.operation.name=String(\"generate_content\") \
                 gen_ai.provider.name=String(\"tests\") gen_ai.request.model=String(\"pictures\") \
                 gen_ai.output.type=String(\"image\")";
    let ends = [" | end", " | end failed: CONTENT_FILTERED", " | first chunk | end"];
    assert_eq!(*spans.lock().unwrap(), ends.map(|end| format!("{start}{end}")));
}
