//! A task as server-sent events: `progress` as often as it reports, then one `result`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream};
use http::StatusCode;
use tokio::sync::mpsc;
use turntree_server::{Body, KeepAlive, Response, SseEvent};

use super::runner::{Progress, ProgressSender};
use crate::wire::WireResponse;

/// Runs an action while its events are read. Dropping the response stops it.
pub(super) fn events<F>(run: impl FnOnce(ProgressSender) -> F) -> Response
where
    F: Future<Output = WireResponse> + Send + 'static,
{
    let (sender, progress) = ProgressSender::channel();
    let state = State::Running(run(sender).boxed());
    Body::events(Events { progress, state }, KeepAlive::default()).into_response(StatusCode::OK)
}

struct Events {
    progress: mpsc::Receiver<Progress>,
    state: State,
}

enum State {
    Running(BoxFuture<'static, WireResponse>),
    /// The result follows the reports that are still in the channel.
    Done(WireResponse),
    Ended,
}

impl Stream for Events {
    type Item = SseEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<SseEvent>> {
        let this = self.get_mut();
        if let State::Running(action) = &mut this.state
            && let Poll::Ready(response) = action.as_mut().poll(context)
        {
            this.state = State::Done(response);
        }
        match &this.state {
            State::Running(_) => match this.progress.poll_recv(context) {
                Poll::Ready(Some(progress)) => Poll::Ready(Some(event(&progress))),
                // The action runs on without its sender.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
            State::Done(response) => {
                if let Ok(progress) = this.progress.try_recv() {
                    return Poll::Ready(Some(event(&progress)));
                }
                let result = SseEvent::json(&response.body).with_event("result");
                this.state = State::Ended;
                Poll::Ready(Some(result))
            }
            State::Ended => Poll::Ready(None),
        }
    }
}

fn event(progress: &Progress) -> SseEvent {
    SseEvent::json(progress).with_event("progress")
}
