//! One message and the task that answers it.
//!
//! The call is a task of the runtime. Its owner reads events from it; when the owner drops it, it cancels the task of the
//! agent, which would continue otherwise.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use turntree_core::http::{BodyStream, EventsOrDocumentError};
use turntree_core::runtime;

use super::card::{AgentCard, ProtocolVersion};
use super::error::A2aClientError;
use super::frames::Frame;
use super::task::RemoteTask;
use super::{A2aClient, Operation};

/// How long a dropped call waits for the id of the task that it must cancel.
const UNTIL_KNOWN: Duration = Duration::from_secs(10);

/// How often a stream that breaks without a new event is opened again, before the task is polled.
const SUBSCRIPTIONS: u32 = 3;

/// The first and the longest wait between two reads of a task.
const POLL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// How many reports wait for the reader.
const REPORTS: usize = 64;

/// A message for an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageInput {
    /// The text.
    pub text: String,
    /// The conversation that it continues.
    pub context_id: Option<String>,
    /// The task that has asked for it.
    pub task_id: Option<String>,
}

/// What a call reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEvent {
    /// A piece of the answer, or what the agent says about its work.
    Progress(String),
    /// The answer. Nothing follows.
    Answer(Answer),
}

/// The answer of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The conversation.
    pub context_id: Option<String>,
    /// The task that waits for input, if the text is a question. The next message continues it.
    pub waiting_task_id: Option<String>,
}

/// A call of an agent.
///
/// # Cancel safety
/// Dropping it cancels the task of the agent.
#[derive(Debug)]
pub struct RemoteCall {
    events: mpsc::Receiver<Result<CallEvent, A2aClientError>>,
    _is_wanted: DropGuard,
}

impl RemoteCall {
    pub(super) fn start(client: A2aClient, input: MessageInput) -> Self {
        let (sender, events) = mpsc::channel(REPORTS);
        let dropped = CancellationToken::new();
        let guard = dropped.clone().drop_guard();
        let call = Call { client, sender, task: RemoteTask::default(), last_event_id: None };
        runtime::spawn(call.run(input, dropped)).detach();
        Self { events, _is_wanted: guard }
    }

    /// The next event; `None` after the answer or an error.
    ///
    /// # Errors
    /// [`A2aClientError`]; nothing follows.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Result<CallEvent, A2aClientError>> {
        self.events.recv().await
    }
}

type Updates = BodyStream<Frame, EventsOrDocumentError>;

/// What follows the beginning of a call.
enum Begun {
    /// The agent streams its updates.
    Streams(Updates),
    /// The task must be read until it ends.
    Polls,
}

struct Call {
    client: A2aClient,
    sender: mpsc::Sender<Result<CallEvent, A2aClientError>>,
    task: RemoteTask,
    last_event_id: Option<String>,
}

impl Call {
    async fn run(mut self, input: MessageInput, dropped: CancellationToken) {
        let card = match select(pin!(self.client.card()), pin!(dropped.cancelled())).await {
            Either::Left((Ok(card), _)) => card,
            Either::Left((Err(error), _)) => return self.send(Err(error)).await,
            Either::Right(_) => return,
        };
        let begun = match self.begin_unless_dropped(&card, &input, &dropped).await {
            Some(Ok(begun)) => begun,
            Some(Err(error)) => return self.send(Err(error)).await,
            None => return,
        };
        let followed = match select(pin!(self.follow(&card, begun)), pin!(dropped.cancelled())).await {
            Either::Left((followed, _)) => Some(followed),
            Either::Right(_) => None,
        };
        match followed {
            Some(Ok(())) => {
                let answer = self.answer();
                self.send(answer.map(CallEvent::Answer)).await;
            }
            Some(Err(error)) => self.send(Err(error)).await,
            None => self.cancel(&card).await,
        }
    }

    /// Sends the message and waits for the first update. A dropped call waits too, because it must know what to cancel.
    async fn begin_unless_dropped(
        &mut self,
        card: &AgentCard,
        input: &MessageInput,
        dropped: &CancellationToken,
    ) -> Option<Result<Begun, A2aClientError>> {
        let (begun, was_dropped) = {
            let begin = pin!(self.begin(card, input));
            match select(begin, pin!(dropped.cancelled())).await {
                Either::Left((begun, _)) => (Some(begun), false),
                Either::Right(((), begin)) => match select(begin, pin!(runtime::sleep(UNTIL_KNOWN))).await {
                    Either::Left((begun, _)) => (Some(begun), true),
                    Either::Right(_) => (None, true),
                },
            }
        };
        if !was_dropped {
            return begun;
        }
        drop(begun);
        self.cancel(card).await;
        None
    }

    async fn begin(&mut self, card: &AgentCard, input: &MessageInput) -> Result<Begun, A2aClientError> {
        let params = self.message(card, input);
        if card.is_streaming {
            let mut updates = self.client.open(&card.interface, Operation::Stream, params, None).await?;
            return match self.next(&mut updates).await? {
                true => Ok(Begun::Streams(updates)),
                false if self.task.id.is_some() => Ok(Begun::Polls),
                false => Err(no_task()),
            };
        }
        let result = self.client.invoke(&card.interface, Operation::Send, params).await?;
        self.apply(&result).await;
        Ok(Begun::Polls)
    }

    /// Reads the next update. Returns false if the stream has ended or broken.
    ///
    /// # Errors
    /// The agent's server refuses the request, or a response is not one of A2A.
    async fn next(&mut self, updates: &mut Updates) -> Result<bool, A2aClientError> {
        match updates.next().await {
            Some(Ok(frame)) => {
                let result = frame.result()?;
                if frame.id.is_some() {
                    self.last_event_id = frame.id;
                }
                self.apply(&result).await;
                Ok(true)
            }
            None => Ok(false),
            Some(Err(EventsOrDocumentError::Http(error))) if self.task.id.is_some() => {
                log::debug!("A2A: the stream of a task has ended, it is continued: {error}");
                Ok(false)
            }
            Some(Err(EventsOrDocumentError::Http(error))) => Err(error.into()),
            Some(Err(error)) => Err(A2aClientError::Protocol { reason: error.to_string() }),
        }
    }

    async fn apply(&mut self, update: &Value) {
        if let Some(report) = self.task.apply(update) {
            self.send(Ok(CallEvent::Progress(report))).await;
        }
    }

    /// Follows the task until it ends or waits for input.
    async fn follow(&mut self, card: &AgentCard, begun: Begun) -> Result<(), A2aClientError> {
        let mut subscriptions = 0;
        let mut next = match begun {
            Begun::Streams(updates) => Some(updates),
            Begun::Polls => None,
        };
        while let Some(mut updates) = next.take() {
            while !self.task.state.is_last() {
                match self.next(&mut updates).await {
                    Ok(true) => subscriptions = subscriptions.min(1),
                    Ok(false) => break,
                    // The agent's server does not work on the task any more, or cannot continue a stream.
                    Err(A2aClientError::Refused { .. }) if subscriptions > 0 => {
                        subscriptions = SUBSCRIPTIONS;
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            if self.task.state.is_last() && subscriptions == 0 {
                return Ok(());
            }
            // What was sent between two streams is not in either of them.
            self.read(card).await?;
            subscriptions += 1;
            if !self.task.state.is_last() && subscriptions <= SUBSCRIPTIONS {
                next = self.subscribe(card).await?;
            }
        }
        self.poll(card).await
    }

    /// Follows the task again. `None` if the agent's server cannot.
    async fn subscribe(&self, card: &AgentCard) -> Result<Option<Updates>, A2aClientError> {
        let params = json!({ "id": self.task.id });
        let last = self.last_event_id.as_deref();
        match self.client.open(&card.interface, Operation::Subscribe, params, last).await {
            Ok(updates) => Ok(Some(updates)),
            Err(A2aClientError::Refused { .. } | A2aClientError::Http(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the task until it ends or waits for input.
    async fn poll(&mut self, card: &AgentCard) -> Result<(), A2aClientError> {
        let (mut wait, longest) = POLL;
        while !self.task.state.is_last() {
            runtime::sleep(wait).await;
            wait = (wait * 3 / 2).min(longest);
            self.read(card).await?;
        }
        Ok(())
    }

    async fn read(&mut self, card: &AgentCard) -> Result<(), A2aClientError> {
        let id = self.task.id.clone().ok_or_else(no_task)?;
        let result = self.client.invoke(&card.interface, Operation::Get, json!({ "id": id })).await;
        match result {
            Ok(result) => self.apply(&result).await,
            // Its server has forgotten the task, but the client has seen its end.
            Err(A2aClientError::Refused { .. }) if self.task.state.is_last() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn answer(&self) -> Result<Answer, A2aClientError> {
        let (state, context_id) = (self.task.state.as_str(), self.task.context_id.clone());
        match state {
            "completed" => Ok(Answer { text: self.task.text(), context_id, waiting_task_id: None }),
            "input-required" => {
                let text = self.task.message.clone();
                let text = if text.is_empty() { self.task.text() } else { text };
                Ok(Answer { text, context_id, waiting_task_id: self.task.id.clone() })
            }
            state => {
                let text = self.task.message.clone();
                let message = if text.is_empty() { "it says no reason".to_owned() } else { text };
                Err(A2aClientError::Ended { state: state.to_owned(), message })
            }
        }
    }

    /// Cancels the task of the agent, if there is one that runs.
    async fn cancel(&self, card: &AgentCard) {
        let Some(id) = &self.task.id else { return };
        if self.task.state.is_last() {
            return;
        }
        let cancelled = self.client.invoke(&card.interface, Operation::Cancel, json!({ "id": id })).await;
        if let Err(error) = cancelled {
            log::warn!("A2A: the task {id} could not be cancelled, it may continue: {error}");
        }
    }

    async fn send(&self, event: Result<CallEvent, A2aClientError>) {
        // A reader that has gone wants nothing.
        let _ = self.sender.send(event).await;
    }

    fn message(&self, card: &AgentCard, input: &MessageInput) -> Value {
        let is_v1 = card.interface.version == ProtocolVersion::V1;
        let mut message = Map::new();
        let mut set = |name: &str, value: Value| message.insert(name.to_owned(), value);
        set("messageId", self.client.new_id().into());
        if is_v1 {
            set("role", "ROLE_USER".into());
            set("parts", json!([{ "text": input.text }]));
        } else {
            set("kind", "message".into());
            set("role", "user".into());
            set("parts", json!([{ "kind": "text", "text": input.text }]));
        }
        for (name, id) in [("contextId", &input.context_id), ("taskId", &input.task_id)] {
            if let Some(id) = id {
                set(name, id.as_str().into());
            }
        }
        let mut configuration = json!({ "acceptedOutputModes": ["text/plain", "application/json"] });
        if !card.is_streaming {
            // The id of the task is known at once, so that it can be cancelled.
            let name = if is_v1 { "returnImmediately" } else { "blocking" };
            if let Some(members) = configuration.as_object_mut() {
                members.insert(name.to_owned(), is_v1.into());
            }
        }
        json!({ "message": message, "configuration": configuration })
    }
}

fn no_task() -> A2aClientError {
    A2aClientError::Protocol { reason: "the response has neither a task nor a message".to_owned() }
}
