//! Responses in a store: each is a branch in the session of its conversation.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use turntree_agents::Session;
use turntree_agents::tree::NodeId;
use turntree_core::ids::IdSource;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::message::Body;
use turntree_core::message::{Message, ToolResult, Turn};
use turntree_server::Principal;

use super::request::ResponsesRequest;
use crate::agent::ServedAgent;
use crate::service::Site;
use crate::wires::openai::error::ApiError;

/// The key of a response in the metadata of its branch.
const KEY: &str = "openai_response";

/// How often a response is saved again when another one was saved at the same time.
const ATTEMPTS: usize = 5;

/// The id of a response: `resp_<32 hexadecimal digits>_<conversation>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseId {
    unique: String,
    conversation: String,
}

impl ResponseId {
    /// A new id in a conversation.
    pub fn new(conversation: &str, ids: &dyn IdSource) -> Self {
        Self { unique: ids.uuid().simple().to_string(), conversation: conversation.to_owned() }
    }

    /// Reads an id.
    ///
    /// # Errors
    /// It is not the id of a response of this server: there is no such response.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let parts = text.strip_prefix("resp_").and_then(|rest| rest.split_once('_'));
        let is_unique = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        parts
            .filter(|(unique, conversation)| is_unique(unique) && !conversation.is_empty())
            .map(|(unique, conversation)| Self {
                unique: unique.to_owned(),
                conversation: conversation.to_owned(),
            })
            .ok_or_else(|| not_found(text))
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "resp_{}_{}", self.unique, self.conversation)
    }
}

fn not_found(id: &str) -> ApiError {
    let message = format!("the response \"{id}\" was not found; it was not stored, or it was deleted");
    ApiError::new(StatusCode::NOT_FOUND, message).with_code("response_not_found")
}

/// Where a response belongs.
#[derive(Debug, Clone)]
pub struct Conversation {
    id: String,
    /// The branch that it continues; the current one if there is none.
    parent: Option<NodeId>,
    /// The messages before the response.
    pub history: Vec<Arc<Message>>,
    /// The messages of its input.
    input: Vec<Arc<Message>>,
}

impl Conversation {
    /// The same conversation with the input of the response.
    #[must_use]
    pub fn with_input(self, input: Vec<Arc<Message>>) -> Self {
        Self { input, ..self }
    }
}

/// The responses of a principal.
#[derive(Debug)]
pub struct Stored<'a> {
    site: &'a Site,
    agent: &'a ServedAgent,
    principal: Option<&'a Principal>,
}

impl<'a> Stored<'a> {
    /// The responses of a principal, opened with an agent.
    pub const fn new(site: &'a Site, agent: &'a ServedAgent, principal: Option<&'a Principal>) -> Self {
        Self { site, agent, principal }
    }

    /// Finds what a request continues, and makes the id of its response.
    ///
    /// # Errors
    /// The earlier response does not exist, the id of the conversation is not valid, or the store failed.
    pub async fn begin(
        &self,
        request: &ResponsesRequest,
        ids: &dyn IdSource,
    ) -> Result<(Conversation, ResponseId), ApiError> {
        let conversation = match (&request.previous_response_id, request.conversation()) {
            (Some(previous), _) => self.after(previous).await?,
            (None, Some(id)) => {
                let session = self.site.conversations.open(self.agent.agent(), self.principal, id).await;
                let session = session.map_err(|error| ApiError::from(error).with_param("conversation"))?;
                let history = session.tree().lock().history().iter().cloned().collect();
                Conversation { id: id.to_owned(), parent: None, history, input: Vec::new() }
            }
            (None, None) => {
                let id = format!("conv_{}", ids.uuid().simple());
                Conversation { id, parent: None, history: Vec::new(), input: Vec::new() }
            }
        };
        let id = ResponseId::new(&conversation.id, ids);
        Ok((conversation, id))
    }

    async fn after(&self, previous: &str) -> Result<Conversation, ApiError> {
        let missing = || {
            not_found(previous).with_param("previous_response_id").with_code("previous_response_not_found")
        };
        let id = ResponseId::parse(previous).map_err(|_| missing())?;
        let session = self.session(&id.conversation).await?.ok_or_else(missing)?;
        let tree = session.tree().lock();
        let (node, _) = find(&tree, previous).ok_or_else(missing)?;
        let history = tree.history_of(node.as_str()).map_err(|_| missing())?;
        Ok(Conversation {
            id: id.conversation,
            parent: Some(node),
            history: history.iter().cloned().collect(),
            input: Vec::new(),
        })
    }

    async fn session(&self, conversation: &str) -> Result<Option<Session>, ApiError> {
        Ok(self.site.conversations.find(self.agent.agent(), self.principal, conversation).await?)
    }

    /// A stored response.
    ///
    /// # Errors
    /// It does not exist, or the store failed.
    pub async fn read(&self, id: &ResponseId) -> Result<Value, ApiError> {
        let text = id.to_string();
        let session = self.session(&id.conversation).await?.ok_or_else(|| not_found(&text))?;
        let found = find(&session.tree().lock(), &text);
        found.map(|(_, object)| object).ok_or_else(|| not_found(&text))
    }

    /// Removes a response. Its messages stay: later responses continue them.
    ///
    /// # Errors
    /// It does not exist, or the store failed.
    pub async fn delete(&self, id: &ResponseId) -> Result<(), ApiError> {
        let text = id.to_string();
        self.change(&id.conversation, |session| {
            let mut tree = session.tree().lock();
            let (node, _) = find(&tree, &text).ok_or_else(|| not_found(&text))?;
            tree.set_metadata(node.as_str(), RawObject::new()).map_err(|error| failed(&error.to_string()))
        })
        .await
    }

    /// Saves a response with the messages of its input and of its turn. `calls` are those that the client must run.
    ///
    /// # Errors
    /// The store failed.
    pub async fn save(
        &self,
        conversation: &Conversation,
        object: &Value,
        turn: &Turn,
        calls: &[String],
    ) -> Result<(), ApiError> {
        let messages = messages_of(&conversation.input, turn, calls, self.site);
        let object = RawJson::from_value(object).map_err(|error| failed(&error.to_string()))?;
        let metadata: RawObject = [(KEY, object)].into_iter().collect();
        self.change(&conversation.id, |session| {
            let (ids, clock) = (&*self.site.ids, &*self.site.clock);
            let mut tree = session.tree().lock();
            let current = tree.current().id.clone();
            let parent = conversation.parent.as_ref().unwrap_or(&current);
            let branch = |error: turntree_agents::tree::TreeError| failed(&error.to_string());
            let node = tree.branch(parent.as_str(), None, ids, clock).map_err(branch)?;
            tree.set_metadata(node.as_str(), metadata.clone()).map_err(branch)?;
            tree.push_to(node.as_str(), messages.iter().cloned(), clock).map_err(branch)?;
            tree.checkout(node.as_str()).map_err(branch)
        })
        .await
    }

    /// Changes a conversation and saves it. If another one has saved it in between, the change is made again.
    async fn change(
        &self,
        conversation: &str,
        change: impl Fn(&Session) -> Result<(), ApiError> + Send + Sync,
    ) -> Result<(), ApiError> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let conversations = &self.site.conversations;
            let session = conversations.open(self.agent.agent(), self.principal, conversation).await?;
            change(&session)?;
            match session.save().await {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        Err(failed(&last.map_or_else(String::new, |error| error.to_string())))
    }
}

fn failed(reason: &str) -> ApiError {
    let message = format!("the response could not be stored: {reason}");
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message).with_code("internal_error")
}

/// The branch of a response, and the response.
fn find(tree: &turntree_agents::tree::ThreadTree, id: &str) -> Option<(NodeId, Value)> {
    tree.nodes().find_map(|node| {
        let object: Value = node.metadata.get(KEY)?.to().ok()?;
        (object.get("id")? == id).then(|| (node.id.clone(), object))
    })
}

/// The messages of a response: its input, and what the run has added. Each call has a result, except for those that the
/// client must run: the next request has them.
fn messages_of(input: &[Arc<Message>], turn: &Turn, calls: &[String], site: &Site) -> Vec<Arc<Message>> {
    let added = turn.messages.iter().filter(|message| !input.iter().any(|known| known.id == message.id));
    let is_of_client = |id: &String| calls.contains(id);
    let mut messages: Vec<Arc<Message>> = input.to_vec();
    let mut is_handed_back = false;
    for message in added {
        let Body::ToolResult { results } = &message.body else {
            if is_handed_back {
                // What the run added while it was being ended; the client has not seen it.
                break;
            }
            is_handed_back = message.tool_calls().iter().any(|call| is_of_client(&call.tool_call_id));
            messages.push(Arc::clone(message));
            continue;
        };
        let kept: Vec<ToolResult> =
            results.iter().filter(|result| !is_of_client(&result.tool_call_id)).cloned().collect();
        if kept.len() == results.len() {
            messages.push(Arc::clone(message));
        } else if !kept.is_empty() {
            messages.push(Arc::new(Message::tool_results(kept, &*site.ids, &*site.clock)));
        }
    }
    let last_calls = messages.iter().rposition(|message| message.has_tool_calls());
    let open: Vec<ToolResult> = last_calls.map_or_else(Vec::new, |place| {
        let known: Vec<&str> = messages
            .iter()
            .skip(place)
            .flat_map(|message| message.results())
            .map(|result| result.tool_call_id.as_str())
            .collect();
        let calls = messages.get(place).map_or(&[][..], |message| message.tool_calls());
        let open = calls
            .iter()
            .filter(|call| !is_of_client(&call.tool_call_id) && !known.contains(&call.tool_call_id.as_str()));
        open.map(|call| ToolResult::error(call.tool_call_id.as_str(), "the call was cancelled")).collect()
    });
    if !open.is_empty() {
        messages.push(Arc::new(Message::tool_results(open, &*site.ids, &*site.clock)));
    }
    messages
}
