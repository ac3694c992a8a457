//! A provider that is implemented outside the crate: `cargo run --example custom_provider`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use turntree::core::ids::{IdSource as _, RandomIds};
use turntree::core::json::RawObject;
use turntree::core::time::SystemClock;
use turntree::message::{ContentBlock, Message, StreamEvent, TokenUsage};
use turntree::upp::dialect::Sources;
use turntree::upp::dialects::common::ResponseParts;
use turntree::upp::{
    Capabilities, Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, ProviderConfig, StopReason,
    UppError, registry,
};

/// Returns the last message backwards.
#[derive(Debug, Clone)]
struct Reverse {
    model_id: String,
}

impl Reverse {
    fn answer(&self, request: &ModelRequest) -> Result<ModelResponse, UppError> {
        let Some(last) = request.messages.iter().last() else {
            return Err(UppError::invalid_request(self.provider(), "messages: there is nothing to reverse"));
        };
        let text: String = last.text().chars().rev().collect();
        let answer = ResponseParts {
            id: RandomIds.string(),
            content: vec![ContentBlock::text(text)],
            metadata: RawObject::new(),
            usage: TokenUsage::of_call(1, 1),
            stop_reason: StopReason::EndTurn,
            ..ResponseParts::default()
        };
        Ok(answer.into_response(self.provider(), Sources { ids: &RandomIds, clock: &SystemClock }))
    }
}

impl Model for Reverse {
    fn model_id(&self) -> &str {
        &self.model_id
    }

    fn provider(&self) -> &'static str {
        "reverse"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tools: false, structured_output: false, ..Capabilities::TEXT }
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let answer = self.answer(&request);
        Box::pin(async { answer })
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let model = self.clone();
        let items = stream::once(async move {
            let items = match model.answer(&request) {
                Err(error) => vec![Err(error)],
                Ok(answer) => {
                    let events = [
                        StreamEvent::message_start(),
                        StreamEvent::text(0, answer.message.text().as_str()),
                        StreamEvent::message_stop(),
                    ];
                    let events = events.map(ModelEvent::Event).into_iter().chain([ModelEvent::Done(answer)]);
                    events.map(Ok).collect()
                }
            };
            stream::iter(items)
        });
        Box::pin(items.flatten())
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), UppError> {
    registry::register(
        "reverse",
        |model_id: &str, _config: ProviderConfig| -> Result<Arc<dyn Model>, UppError> {
            Ok(Arc::new(Reverse { model_id: model_id.to_owned() }))
        },
    )?;
    let model = registry::model("reverse:small", ProviderConfig::default())?;

    let question = Message::user("stressed", &RandomIds, &SystemClock);
    let request =
        ModelRequest { messages: [Arc::new(question)].into_iter().collect(), ..ModelRequest::default() };
    let answer = model.complete(request.clone()).await?;
    assert_eq!(answer.message.text(), "desserts");

    let events: Vec<_> = model.stream(request).collect().await;
    assert_eq!(events.len(), 4);
    Ok(())
}
