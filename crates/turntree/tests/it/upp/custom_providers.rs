//! Models of application functions, and the factories of dialects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use turntree::core::json::RawObject;
use turntree::message::content::ImageBlock;
use turntree::message::{ContentBlock, StreamEvent, TokenUsage};
use turntree::upp::embedding::{
    EmbedOptions, Embedding, EmbeddingLimits, EmbeddingModel, EmbeddingResult, Vector, embed,
};
use turntree::upp::image::{GeneratedImage, ImageModel as _, ImageRequest, ImageResult};
use turntree::upp::providers::custom::{
    CustomEmbeddingModel, CustomImageModel, CustomModel, CustomResponse, EventSender, StreamClosed,
    event_queue::CAPACITY,
};
use turntree::upp::providers::factory::{FactoryOptions, dialect_factory};
use turntree::upp::result_stream::Step;
use turntree::upp::{Capabilities, ErrorCode, Model, ModelEvent, ProviderConfig, StopReason, UppError};

use crate::support::dialect::{hello, raw, with_structure};

fn model() -> CustomModel {
    CustomModel::new("parrot", "grey", Capabilities::TEXT)
}

fn text(text: &str) -> CustomResponse {
    let content = Some((vec![ContentBlock::text(text)], Vec::new()));
    CustomResponse { content, usage: TokenUsage::of_call(3, 2), ..CustomResponse::default() }
}

/// A model whose `stream` function sends these events and returns this response.
fn streaming(events: Vec<StreamEvent>, response: Result<CustomResponse, UppError>) -> CustomModel {
    model().with_stream(Arc::new(move |_, sender: EventSender| {
        let (events, response) = (events.clone(), response.clone());
        Box::pin(async move {
            for event in events {
                sender.send(event).unwrap();
            }
            response
        })
    }))
}

/// The kinds of the events, and the response.
async fn streamed(model: &CustomModel) -> (Vec<String>, Result<String, UppError>) {
    let mut kinds = Vec::new();
    let mut stream = model.stream(hello());
    while let Some(item) = stream.next().await {
        match item {
            Ok(ModelEvent::Event(event)) => kinds.push(event.delta.kind().to_owned()),
            Ok(ModelEvent::Done(response)) => {
                assert!(stream.next().await.is_none());
                return (kinds, Ok(response.message.text()));
            }
            Err(error) => {
                assert!(stream.next().await.is_none());
                return (kinds, Err(error));
            }
        }
    }
    panic!("the stream ended without a response");
}

#[tokio::test]
async fn a_generate_function_is_completed_and_streamed() {
    let model = model().with_generate(Arc::new(|_| Box::pin(async { Ok(text("Polly")) })));

    let response = model.complete(hello()).await.unwrap();
    let (kinds, streamed) = streamed(&model).await;

    assert_eq!((response.stop_reason, response.usage.input_tokens), (StopReason::EndTurn, 3));
    let metadata = response.message.metadata.clone().unwrap();
    assert_eq!(
        RawObject::from_raw(metadata.get("parrot").unwrap()).unwrap().get("model"),
        Some(&raw("\"grey\""))
    );
    assert_eq!(kinds.first().map(String::as_str), Some("message_start"));
    assert_eq!(kinds.last().map(String::as_str), Some("message_stop"));
    assert_eq!(streamed.unwrap(), "Polly");
}

#[tokio::test]
async fn structured_output_is_read_from_the_text() {
    let model = model().with_generate(Arc::new(|_| Box::pin(async { Ok(text("{\"a\": 1}")) })));

    let plain = model.complete(hello()).await.unwrap();
    let structured = model.complete(with_structure(hello(), r#"{"type":"object"}"#)).await.unwrap();

    assert_eq!(plain.data, None);
    assert_eq!(structured.data.map(|data| data.get().to_owned()).as_deref(), Some("{\"a\":1}"));
}

#[tokio::test]
async fn a_missing_start_and_stop_are_added_to_the_events() {
    let events = vec![StreamEvent::text(0, "Po"), StreamEvent::text(0, "lly")];
    let complete =
        [vec![StreamEvent::message_start()], events.clone(), vec![StreamEvent::message_stop()]].concat();

    for events in [events, complete] {
        let (kinds, streamed) = streamed(&streaming(events, Ok(CustomResponse::default()))).await;

        assert_eq!(kinds, ["message_start", "text_delta", "text_delta", "message_stop"]);
        assert_eq!(streamed.unwrap(), "Polly");
    }
}

#[tokio::test]
async fn the_content_of_the_response_wins_over_the_events() {
    let model = streaming(vec![StreamEvent::text(0, "Polly")], Ok(text("Pretty Polly")));

    let response = model.complete(hello()).await.unwrap();

    assert_eq!(response.message.text(), "Pretty Polly");
}

#[tokio::test]
async fn events_come_before_the_error_of_the_function() {
    let error = UppError::new(ErrorCode::ProviderError, "parrot", "the parrot sleeps");

    let (kinds, streamed) = streamed(&streaming(vec![StreamEvent::text(0, "Po")], Err(error))).await;

    assert_eq!(kinds, ["message_start", "text_delta"]);
    assert_eq!(streamed.unwrap_err().message, "the parrot sleeps");
}

#[tokio::test]
async fn a_model_without_functions_is_not_a_language_model() {
    let model = model();

    let error = model.complete(hello()).await.unwrap_err();

    assert!(!model.is_llm());
    assert_eq!(error.message, "Provider 'parrot' does not support llm modality");
}

/// A stream whose function gives its sender away and never ends.
fn open_stream() -> (turntree::upp::ModelStream, Arc<Mutex<Option<EventSender>>>) {
    let given = Arc::new(Mutex::new(None));
    let place = Arc::clone(&given);
    let model = model().with_stream(Arc::new(move |_, sender| {
        *place.lock().unwrap() = Some(sender);
        Box::pin(std::future::pending())
    }));
    (model.stream(hello()), given)
}

#[tokio::test]
async fn a_sender_waits_for_space_and_learns_that_the_reader_is_gone() {
    let (mut stream, given) = open_stream();
    assert!(futures_util::poll!(stream.next()).is_pending());
    let sender = given.lock().unwrap().take().unwrap();
    for count in 1..=CAPACITY {
        assert_eq!(sender.send(StreamEvent::text(0, "x")), Ok(count < CAPACITY));
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let count = |calls: &Arc<AtomicUsize>| {
        let calls = Arc::clone(calls);
        Box::new(move || {
            calls.fetch_add(1, Ordering::SeqCst);
        })
    };
    sender.on_space(count(&calls));

    // The message start is added, so half of the queue is free after one more event.
    for _ in 0..CAPACITY / 2 {
        stream.next().await.unwrap().unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    stream.next().await.unwrap().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(sender.wait(), Ok(()));

    while sender.send(StreamEvent::text(0, "x")) == Ok(true) {}
    sender.on_space(count(&calls));
    let blocked = std::thread::spawn({
        let sender = sender.clone();
        move || sender.wait()
    });
    drop(stream);
    assert_eq!(blocked.join().unwrap(), Err(StreamClosed));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(sender.send(StreamEvent::text(0, "x")), Err(StreamClosed));
}

#[tokio::test]
async fn an_event_wakes_the_reader() {
    let (mut stream, given) = open_stream();
    let reader = tokio::spawn(async move { stream.next().await.unwrap().unwrap() });
    let sender = loop {
        if let Some(sender) = given.lock().unwrap().take() {
            break sender;
        }
        tokio::task::yield_now().await;
    };

    sender.send(StreamEvent::message_start()).unwrap();

    assert_eq!(reader.await.unwrap(), ModelEvent::Event(StreamEvent::message_start()));
}

#[tokio::test]
async fn an_embed_function_receives_batches() {
    let batches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&batches);
    let model = CustomEmbeddingModel {
        provider: "parrot".into(),
        model_id: "grey".into(),
        limits: EmbeddingLimits { batch_size: Some(2), ..EmbeddingLimits::default() },
        embed: Arc::new(move |request| {
            counted.fetch_add(1, Ordering::SeqCst);
            let embeddings = (0..request.inputs.len())
                .map(|index| Arc::new(Embedding::new(Vector::from(vec![1.0_f32, 2.0]), index)));
            let embeddings = embeddings.collect();
            Box::pin(async { Ok(EmbeddingResult { embeddings, ..EmbeddingResult::default() }) })
        }),
    };
    assert_eq!((model.provider(), model.model_id()), ("parrot", "grey"));

    let inputs = ["a", "b", "c"].map(Into::into).to_vec();
    let mut call = embed(Arc::new(model), inputs, Arc::default(), EmbedOptions::default()).unwrap();

    assert_eq!(call.result().await.unwrap().embeddings.len(), 3);
    assert_eq!(batches.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_image_function_streams_its_finished_images() {
    let block = ImageBlock::from_url("https://example.test/a.png".to_owned(), None).unwrap();
    let model = CustomImageModel {
        provider: "parrot".into(),
        model_id: "grey".into(),
        generate: Some(Arc::new(move |_| {
            let images = vec![GeneratedImage::new(block.clone()); 2];
            Box::pin(async { Ok(ImageResult { images, ..ImageResult::default() }) })
        })),
        edit: None,
    };
    let request = ImageRequest { prompt: "a parrot".into(), source: None, params: Arc::default() };

    let steps: Vec<_> = model.stream(request).collect().await;

    assert_eq!(steps.len(), 3);
    assert!(matches!(steps.last(), Some(Ok(Step::Done(result))) if result.images.len() == 2));
    assert!(model.capabilities().generate && !model.capabilities().edit);
}

#[test]
fn a_factory_names_the_apis_of_its_vendor() {
    let of = |provider: &str, api| {
        dialect_factory(provider, FactoryOptions { api, ..FactoryOptions::default() })
            .map(|factory| factory(&ProviderConfig::default()).provider().to_owned())
            .map_err(|error| error.message)
    };

    assert_eq!(of("xai", Some("messages")).as_deref(), Ok("xai"));
    assert_eq!(
        of("openai", Some("chat")),
        Err("api must be \"responses\" or \"completions\" for openai, not \"chat\"".to_owned())
    );
    assert_eq!(of("nobody", None), Err("unknown provider \"nobody\"".to_owned()));
}
