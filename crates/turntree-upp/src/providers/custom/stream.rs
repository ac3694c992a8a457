//! Runs a `stream` function of the application and completes its events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::BoxFuture;

use super::event_queue::EventReceiver;
use super::model::{CustomModel, CustomResponse, StreamFunction};
use crate::error::UppError;
use crate::provider::ModelEvent;
use crate::providers::scripted::events_of;
use crate::request::ModelRequest;
use turntree_core::message::fold::Fold;
use turntree_core::message::{Delta, StreamEvent};

/// How far the message is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No event was returned.
    Empty,
    Started,
    Stopped,
    /// The response is complete, or the function has failed.
    Over,
}

/// A stream of the application's events. Adds a missing start and stop of the message.
pub(super) struct CustomStream {
    model: CustomModel,
    request: ModelRequest,
    receiver: EventReceiver,
    /// The function; `None` after it has returned.
    call: Option<BoxFuture<'static, Result<CustomResponse, UppError>>>,
    returned: Option<Result<CustomResponse, UppError>>,
    fold: Fold,
    stage: Stage,
    /// Events to return before those of the queue.
    pending: VecDeque<ModelEvent>,
}

impl CustomStream {
    /// Calls the function.
    pub(super) fn new(model: CustomModel, request: ModelRequest, function: &StreamFunction) -> Self {
        let (sender, receiver) = EventReceiver::new();
        let call = Some(function(request.clone(), sender));
        let (fold, stage, pending) = (Fold::default(), Stage::Empty, VecDeque::new());
        Self { model, request, receiver, call, returned: None, fold, stage, pending }
    }

    /// Counts an event of the function as part of the message and queues it.
    fn accept(&mut self, event: StreamEvent) {
        if self.stage == Stage::Empty {
            self.stage = Stage::Started;
            if !matches!(event.delta, Delta::MessageStart(_)) {
                self.pending.push_back(ModelEvent::Event(StreamEvent::message_start()));
            }
        }
        if matches!(event.delta, Delta::MessageStop(_)) {
            self.stage = Stage::Stopped;
        }
        self.fold.push(&event);
        self.pending.push_back(ModelEvent::Event(event));
    }

    /// Queues the remaining events and the response, after all events of the function.
    fn finish(&mut self, response: CustomResponse) {
        let streamed = std::mem::take(&mut self.fold).finish();
        let streamed = (streamed.content, streamed.tool_calls);
        let response = self.model.response(&self.request, response, streamed);
        let last = match self.stage {
            Stage::Empty => {
                let message = &response.message;
                events_of(message.content(), message.tool_calls(), self.request.structure.is_some())
            }
            Stage::Started => vec![StreamEvent::message_stop()],
            Stage::Stopped | Stage::Over => Vec::new(),
        };
        self.pending.extend(last.into_iter().map(ModelEvent::Event));
        self.pending.push_back(ModelEvent::Done(response));
    }
}

impl Stream for CustomStream {
    type Item = Result<ModelEvent, UppError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.pending.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if this.stage == Stage::Over {
                return Poll::Ready(None);
            }
            if let Some(event) = this.receiver.next(context.waker()) {
                this.accept(event);
                continue;
            }
            // The function may send events while it is polled, so the queue is read again before its result is used.
            match (this.returned.take(), &mut this.call) {
                (Some(returned), _) => {
                    let finished = returned.map(|response| this.finish(response));
                    this.stage = Stage::Over;
                    if let Err(error) = finished {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                (None, Some(call)) => match call.as_mut().poll(context) {
                    Poll::Ready(returned) => (this.call, this.returned) = (None, Some(returned)),
                    Poll::Pending => return Poll::Pending,
                },
                (None, None) => return Poll::Ready(None),
            }
        }
    }
}
