//! Middleware around calls that make vectors and pictures: order, changed requests, failures, aborts. UPP-1.2 §17.

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

/// Answers after a second with as many vectors as inputs, two inputs at most; fails at inputs that say so.
#[derive(Debug, Default)]
struct Vectors {
    asked: Arc<Mutex<Vec<String>>>,
}

impl EmbeddingModel for Vectors {
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
        self.asked.lock().unwrap().push(texts.collect::<Vec<_>>().join("+"));
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

/// Shows the prompt as pictures: a streamed call gives one event a word.
#[derive(Debug, Default)]
struct Pictures {
    asked: Arc<Mutex<Vec<String>>>,
}

fn picture() -> GeneratedImage {
    let block =
        json!({"type": "image", "source": {"type": "base64", "data": "AAEC"}, "mimeType": "image/png"});
    GeneratedImage::new(serde_json::from_value(block).unwrap())
}

impl ImageModel for Pictures {
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
        self.asked.lock().unwrap().push(request.prompt.to_string());
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if &*request.prompt == "fail" {
                return Err(UppError::new(ErrorCode::ContentFiltered, "tests", "no"));
            }
            Ok(ImageResult { images: vec![picture()], ..ImageResult::default() })
        })
    }

    fn stream(&self, request: ImageRequest) -> ImageSteps {
        self.asked.lock().unwrap().push(request.prompt.to_string());
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

/// Writes down what it hears, changes what is asked, and fails where it shall.
#[derive(Debug, Default)]
struct Ears {
    name: &'static str,
    heard: Arc<Mutex<Vec<String>>>,
    adds: Option<&'static str>,
    fails_in: &'static str,
}

impl Ears {
    fn hear(&self, hook: &str, context: &CallContext) -> HookFuture<'static> {
        self.heard.lock().unwrap().push(format!("{}{hook}", self.name));
        assert!(context.start_time.milliseconds() > 0);
        let failed =
            (self.fails_in == hook).then(|| UppError::new(ErrorCode::InvalidRequest, "tests", "hook"));
        // A hook that waits.
        Box::pin(async move {
            tokio::task::yield_now().await;
            failed.map_or(Ok(()), Err)
        })
    }
}

impl Middleware for Ears {
    fn on_start<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.hear("start", context)
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
        self.hear("request", context)
    }
    fn on_response<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        assert!(matches!(context.response(), Some(Response::Embedding(_) | Response::Image(_))));
        self.hear("response", context)
    }
    fn on_end<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        assert!(context.end_time().is_some());
        self.hear("end", context)
    }
    fn on_error<'a>(&'a self, error: &'a UppError, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        assert_eq!(error.modality, context.modality);
        self.hear(&format!("error:{}", error.code.as_str()), context)
    }
    fn on_abort<'a>(&'a self, error: &'a UppError, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        assert_eq!(error.code, ErrorCode::Cancelled);
        self.hear("abort", context)
    }
    fn on_stream_end<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        unreachable!("events of vectors and pictures are not those of hooks")
    }
}

type Heard = Arc<Mutex<Vec<String>>>;

fn chain(ears: Ears) -> (MiddlewareStack, Heard) {
    let heard = Arc::clone(&ears.heard);
    (MiddlewareStack::from_iter([Arc::new(ears) as Arc<dyn Middleware>]), heard)
}

fn said(heard: &Heard) -> Vec<String> {
    heard.lock().unwrap().clone()
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
async fn hooks_run_once_around_all_batches_and_change_what_is_asked() {
    let heard = Heard::default();
    let ears = |name, adds| {
        Arc::new(Ears { name, adds, heard: Arc::clone(&heard), ..Ears::default() }) as Arc<dyn Middleware>
    };
    let chain = MiddlewareStack::from_iter([ears("1", Some("c")), ears("2", None)]);
    let model = Arc::new(Vectors::default());

    let mut stream = embed(model.clone(), inputs(&["a", "b"]), Arc::default(), options(chain, true)).unwrap();
    let first = stream.next().await.unwrap().unwrap();
    let before_the_end = said(&heard);
    let result = stream.result().await.unwrap();

    assert_eq!(*model.asked.lock().unwrap(), ["a+b", "c"]);
    assert_eq!((first.completed, first.total, result.embeddings.len()), (2, 3, 3));
    assert_eq!(before_the_end, ["1start", "2start", "1request", "2request"]);
    assert_eq!(said(&heard)[4..], ["2response", "1response", "2end", "1end"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_heard_once_wherever_it_comes_from() {
    for (texts, fails_in, wanted) in [
        (vec!["a", "b", "fail"], "", vec!["start", "request", "error:RATE_LIMITED"]),
        (vec![], "", vec!["start", "request", "error:INVALID_REQUEST"]),
        (vec!["a"], "request", vec!["start", "request", "error:INVALID_REQUEST"]),
        (vec!["a"], "end", vec!["start", "request", "response", "end", "error:INVALID_REQUEST"]),
    ] {
        for chunked in [false, true] {
            let (chain, heard) = chain(Ears { fails_in, ..Ears::default() });
            let model = Arc::new(Vectors::default());

            let stream = embed(model, inputs(&texts), Arc::default(), options(chain, chunked));
            stream.unwrap().result().await.unwrap_err();

            assert_eq!(said(&heard), wanted, "{texts:?} {fails_in}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_aborted_or_dropped_stream_is_on_abort_once_before_it_ends() {
    for drops in [false, true] {
        let (chain, heard) = chain(Ears::default());
        let model = Arc::new(Vectors::default());
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

        assert_eq!(said(&heard), ["start", "request", "abort"], "dropped: {drops}");
        assert_eq!(*model.asked.lock().unwrap(), ["a+b"], "dropped: {drops}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_listens_to_is_cancelled_as_an_error() {
    let (chain, heard) = chain(Ears::default());
    let mut stream =
        embed(Arc::new(Vectors::default()), inputs(&["a"]), Arc::default(), options(chain, false)).unwrap();

    let waited = tokio::time::timeout(Duration::from_millis(10), stream.result()).await;
    drop(stream);
    tokio::time::sleep(Duration::from_secs(1)).await;

    assert!(waited.is_err());
    assert_eq!(said(&heard), ["start", "request", "error:CANCELLED"]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_while_a_hook_of_the_end_waits_comes_too_late() {
    let (chain, heard) = chain(Ears::default());
    let mut stream =
        embed(Arc::new(Vectors::default()), inputs(&["a"]), Arc::default(), options(chain, true)).unwrap();
    let token = stream.abort_token().clone();
    stream.next().await.unwrap().unwrap();
    let ends = Arc::clone(&heard);
    let aborting = tokio::spawn(async move {
        while said(&ends).len() < 3 {
            tokio::task::yield_now().await;
        }
        token.cancel();
    });

    let result = stream.result().await.unwrap();

    aborting.await.unwrap();
    assert_eq!(result.embeddings.len(), 1);
    assert_eq!(said(&heard), ["start", "request", "response", "end"]);
}

#[tokio::test(start_paused = true)]
async fn pictures_are_made_changed_and_streamed_through_their_hooks() {
    let all = ["start", "request", "response", "end"];
    let model = Arc::new(Pictures::default());
    let door: Arc<dyn ImageModel> = model.clone();

    let (made, heard) = chain(Ears { adds: Some("fox"), ..Ears::default() });
    generate(Arc::clone(&door), prompt(""), made).await.unwrap();
    assert_eq!(said(&heard), all);

    let (streamed, heard) = chain(Ears { adds: Some("hen"), ..Ears::default() });
    let mut events = stream(&door, prompt("a"), streamed).unwrap();
    assert!(events.next().await.unwrap().is_ok() && events.next().await.unwrap().is_ok());
    assert_eq!(said(&heard), ["start", "request"], "the call never runs ahead of its listener");
    assert!(events.next().await.is_none());
    assert_eq!(said(&heard), all);

    assert_eq!(*model.asked.lock().unwrap(), ["fox", "a hen"]);
}

#[tokio::test(start_paused = true)]
async fn failed_pictures_are_on_error_and_aborted_ones_on_abort() {
    let model: Arc<dyn ImageModel> = Arc::new(Pictures::default());

    let (made, heard) = chain(Ears::default());
    generate(Arc::clone(&model), prompt("fail"), made).await.unwrap_err();
    assert_eq!(said(&heard), ["start", "request", "error:CONTENT_FILTERED"]);

    let (changed, heard) = chain(Ears::default());
    edit(Arc::clone(&model), prompt("no source"), changed).await.unwrap_err();
    assert_eq!(said(&heard), ["start", "request", "error:INVALID_REQUEST"]);

    let (streamed, heard) = chain(Ears::default());
    let mut events = stream(&model, prompt("a fail"), streamed).unwrap();
    assert_eq!(events.result().await.unwrap_err().modality, Modality::Image);
    assert_eq!(said(&heard), ["start", "request", "error:CONTENT_FILTERED"]);

    let (streamed, heard) = chain(Ears::default());
    let mut events = stream(&model, prompt("a fox"), streamed).unwrap();
    events.next().await.unwrap().unwrap();
    events.abort();
    assert_eq!(events.result().await.unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(said(&heard), ["start", "request", "abort"]);
}

/// Records each span as one line: name, attributes, events and how it ended.
#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

#[derive(Debug)]
struct RecordedSpan(Mutex<String>, Spans);

fn written(attributes: &Attributes<'_>) -> String {
    attributes.iter().fold(String::new(), |mut text, (name, value)| {
        write!(text, " {name}={value:?}").unwrap();
        text
    })
}

impl Tracer for Spans {
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

fn traced() -> (CallLayers, Arc<Mutex<Vec<String>>>) {
    let spans = Spans::default();
    let lines = Arc::clone(&spans.0);
    (CallLayers { tracer: Some(Arc::new(spans)), ..CallLayers::default() }, lines)
}

#[tokio::test(start_paused = true)]
async fn an_embedding_call_is_one_span_however_many_batches_it_has() {
    let (layers, spans) = traced();
    let inputs = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<EmbeddingInput>>();
    let call = |texts: &[&str]| {
        let options = EmbedOptions { layers: layers.clone(), ..EmbedOptions::default() };
        embed(Arc::new(Vectors::default()), inputs(texts), Arc::default(), options).unwrap()
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
    let (layers, spans) = traced();
    let model: Arc<dyn ImageModel> = Arc::new(Pictures::default());
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
