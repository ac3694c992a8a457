//! Sessions: runs, checkpoints, restore, resume, fork, JSON. UAP-1.0 §6, §13.

mod approval;
mod cancel;
mod in_doubt;
mod interruptions;
mod journal;
mod json;
mod laws;
mod runs;
mod structured;

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use turntree::agents::host::{Approval, RunContext};
use turntree::agents::session::{CheckpointInterval, SessionSnapshot};
use turntree::agents::{Agent, Session, SessionOptions};
use turntree::core::ids::CountingIds;
use turntree::core::limits::Limits;
use turntree::message::message::History;
use turntree::message::{Message, MessageKind};
use turntree::upp::{
    Capabilities, ErrorCode, Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, UppError,
};

use crate::support::agents::{Answer, TestHost, agent, clock, yield_times};

/// Follows the last user message: `3` makes three rounds of two tool calls and then a text response. With `?` the second
/// tool of each round needs approval; with `!` the text response fails while `failing` is set. All ids are unique.
#[derive(Debug, Default)]
pub(super) struct TalkModel {
    pub(super) failing: AtomicBool,
    answers: AtomicUsize,
    /// The ids of the messages of each request.
    pub(super) requests: Mutex<Vec<Vec<String>>>,
}

impl TalkModel {
    fn answer(&self, request: &ModelRequest) -> Result<ModelResponse, UppError> {
        self.requests.lock().unwrap().push(ids_of(&request.messages));
        let last_user =
            request.messages.iter().rposition(|message| message.kind() == MessageKind::User).unwrap();
        let text = request.messages[last_user].text();
        let after = request.messages.iter().skip(last_user);
        let rounds = after.filter(|message| message.kind() == MessageKind::ToolResult).count();
        let requested_rounds: usize =
            text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
        let number = self.answers.fetch_add(1, Ordering::Relaxed) + 1;
        if rounds < requested_rounds {
            let second = if text.contains('?') { "guarded" } else { "slow" };
            return Ok(Answer::calls(&["echo", second]).response(number));
        }
        if text.contains('!') && self.failing.load(Ordering::Relaxed) {
            return Err(UppError::new(ErrorCode::ProviderError, "talk", "down"));
        }
        Ok(Answer::text(&format!("answer to {text}")).response(number))
    }
}

impl Model for TalkModel {
    fn model_id(&self) -> &'static str {
        "talk"
    }

    fn provider(&self) -> &'static str {
        "talk"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let answer = self.answer(&request);
        Box::pin(async move {
            yield_times(1).await;
            answer
        })
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let answer = self.answer(&request);
        Box::pin(futures_util::stream::once(async move {
            yield_times(1).await;
            answer.map(ModelEvent::Done)
        }))
    }
}

/// A session with its model, host, id source and agent.
pub(super) struct Fixture {
    pub(super) model: Arc<TalkModel>,
    pub(super) host: Arc<TestHost>,
    pub(super) ids: Arc<CountingIds>,
    pub(super) agent: Agent,
    pub(super) session: Session,
}

impl Fixture {
    pub(super) fn new(interval: CheckpointInterval) -> Self {
        let model = Arc::new(TalkModel::default());
        let host = Arc::new(TestHost { approval: Approval::Ask, ..TestHost::default() });
        let ids = Arc::new(CountingIds::default());
        let agent = agent(Arc::clone(&model) as _, 10);
        let session = Session::new(agent.clone(), options(&ids, interval)).unwrap();
        Self { model, host, ids, agent, session }
    }

    pub(super) fn context(&self) -> RunContext {
        RunContext::new(Arc::clone(&self.host) as _)
    }

    /// Returns the session as another process loads it.
    pub(super) fn reloaded(&self) -> Session {
        self.load(&self.session.to_json().unwrap())
    }

    pub(super) fn load(&self, text: &str) -> Session {
        self.continued(SessionSnapshot::from_json(text, &Limits::default()).unwrap())
    }

    /// Returns a session with this state.
    pub(super) fn continued(&self, snapshot: SessionSnapshot) -> Session {
        let metadata = snapshot.metadata.clone();
        let options = SessionOptions {
            metadata: Arc::new(Mutex::new(metadata)),
            ..options(&self.ids, CheckpointInterval::Step)
        };
        Session::from_snapshot(snapshot, self.agent.clone(), options)
    }

    /// The ids of the executed tool calls, in order.
    pub(super) fn tools_run(&self) -> Vec<String> {
        self.host.log().iter().filter_map(|line| line.strip_prefix("run ").map(str::to_owned)).collect()
    }
}

fn options(ids: &Arc<CountingIds>, interval: CheckpointInterval) -> SessionOptions {
    SessionOptions {
        interval,
        ids: Arc::clone(ids) as _,
        clock: Arc::new(clock()),
        ..SessionOptions::default()
    }
}

pub(super) fn ids_of(messages: &History) -> Vec<String> {
    messages.iter().map(|message| message.id.clone()).collect()
}

pub(super) fn texts_of<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<String> {
    messages.into_iter().map(|message| message.text()).collect()
}

pub(super) fn texts(session: &Session) -> Vec<String> {
    texts_of(&session.tree().snapshot().history())
}

/// The ids of all messages in the tree.
pub(super) fn reachable(session: &Session) -> HashSet<String> {
    let tree = session.tree().snapshot();
    tree.nodes().flat_map(|node| ids_of(&node.thread.messages)).collect()
}

/// Polls a future up to `times` times. `None` if it is still pending.
pub(super) fn poll_at_most<T>(
    mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    times: usize,
) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..times {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
    }
    None
}
