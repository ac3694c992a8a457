//! Responses as runs of agents.

use std::sync::Arc;
use std::time::Duration;

use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::MessageKind;
use turntree_core::runtime;
use turntree_server::Principal;

use crate::agent::messages::tools_to_upp;
use crate::agent::{
    AgentRun, ConversationError, RunInput, RunOptions, RunRequest, ServedAgent, messages_to_upp,
};
use crate::error::UampError;
use crate::service::Site;
use crate::session::ResponseRequest;
use crate::types::{ErrorCode, ErrorDetails, ResponseFormat};
use crate::wires::openai::conversation::run_input;
use crate::wires::openai::parameters::Parameters;

/// How long a cancelled run may take to save what there is of its answer.
const ENDING: Duration = Duration::from_secs(10);

/// Where the responses of a session run.
#[derive(Debug, Clone)]
pub(super) struct RunPlace {
    /// What all wires share.
    pub site: Arc<Site>,
    /// The agent.
    pub agent: Arc<ServedAgent>,
    /// The principal whose conversation it is.
    pub principal: Option<Principal>,
    /// The id of the conversation.
    pub conversation: Arc<str>,
    /// The run of the next response, if it was made from a request of another protocol.
    pub run: Option<Arc<RunRequest>>,
    /// False if a conversation that the client sends whole is not stored: the client keeps it.
    pub keeps_sent_conversations: bool,
}

impl RunPlace {
    /// Starts a response. `previous` is a run of the same conversation that may not have ended yet.
    ///
    /// # Errors
    /// What the client is told.
    pub(super) async fn start(
        self,
        previous: Option<AgentRun>,
        request: ResponseRequest,
    ) -> Result<AgentRun, ErrorDetails> {
        if let Some(mut previous) = previous {
            let ended = async { while previous.next().await.is_some() {} };
            let limit = std::pin::pin!(runtime::sleep(ENDING));
            futures_util::future::select(std::pin::pin!(ended), limit).await;
        }
        if let Some(run) = &self.run {
            return Ok(AgentRun::start(RunRequest::clone(run)));
        }
        let Site { ids, clock, conversations, .. } = &*self.site;
        let converted =
            messages_to_upp(&request.messages, &**ids, &**clock).map_err(|error| invalid(&error))?;
        let mut instructions: Vec<String> = request.instructions.clone().into_iter().collect();
        instructions.extend(converted.instructions);
        let options = RunOptions {
            instructions,
            client_tools: tools_to_upp(&request.tools).map_err(|error| invalid(&error))?,
            structure: request.response_format.as_ref().and_then(structure),
            params: params(&request, &self.agent),
            principal: self.principal.clone(),
            ..RunOptions::default()
        };
        let messages = converted.messages;
        let ends_with_user = messages.last().is_some_and(|last| last.kind() == MessageKind::User);
        let is_whole = request.replaces && !messages.is_empty();
        let input = if is_whole && !self.keeps_sent_conversations {
            run_input(messages.into_iter().map(Arc::new).collect())
        } else if is_whole && !ends_with_user {
            // Results of tools that a platform has run: the model continues, and the platform keeps the conversation.
            RunInput::Messages { history: messages.into_iter().map(Arc::new).collect(), input: Vec::new() }
        } else {
            let agent = self.agent.agent();
            let session = conversations.open(agent, self.principal.as_ref(), &self.conversation).await;
            let session = session.map_err(|error| refused(&error))?;
            let input = conversations.append(&session, messages, request.replaces);
            RunInput::Session { session, input: input.map_err(|error| refused(&error))? }
        };
        Ok(AgentRun::start(RunRequest { agent: self.agent, input, options }))
    }
}

/// The JSON Schema of the output.
fn structure(format: &ResponseFormat) -> Option<Arc<RawJson>> {
    match format {
        ResponseFormat::JsonSchema(format) => Some(Arc::new(format.json_schema.schema.clone())),
        ResponseFormat::JsonObject(_) => {
            RawJson::from_text(r#"{"type":"object"}"#.to_owned()).ok().map(Arc::new)
        }
        ResponseFormat::Text(_) | ResponseFormat::Unknown(_) => None,
    }
}

/// The parameters that the request has, in the words of the agent's model.
fn params(request: &ResponseRequest, agent: &ServedAgent) -> RawObject {
    let Some(options) = &request.options else { return RawObject::new() };
    let parameters = Parameters {
        temperature: options.temperature.clone(),
        max_tokens: options.max_tokens.clone(),
        ..Parameters::default()
    };
    parameters.of_agent(agent.agent()).0
}

fn invalid(error: &UampError) -> ErrorDetails {
    ErrorDetails::new(error.code(), error.to_string())
}

fn refused(error: &ConversationError) -> ErrorDetails {
    match error {
        ConversationError::NoInput => ErrorDetails::new(ErrorCode::InvalidEvent, error.to_string()),
        // The reason is the operator's: it may contain addresses and names of tables.
        other => {
            log::error!(target: "turntree.uamp", "{other}");
            ErrorDetails::new(
                ErrorCode::InternalError,
                "the conversation could not be opened; try again later",
            )
        }
    }
}
