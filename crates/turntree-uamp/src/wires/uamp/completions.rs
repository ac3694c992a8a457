//! `POST /uamp/completions`: a request of OpenAI's chat completions in, UAMP's events out.
//!
//! The client keeps the conversation, as with `/chat/completions`: it is not stored.
//!
//! Spec: UAMP-1.0 §13.3

use std::sync::Arc;

use turntree_server::{Body, Response};

use super::http::EventRequest;
use super::refusal::Refusal;
use crate::agent::{RunOptions, RunRequest};
use crate::event::{ClientEvent, InputText, SessionCreate};
use crate::types::{ErrorCode, Message};
use crate::wires::openai::ApiError;
use crate::wires::openai::chat::request::ChatRequest;
use crate::wires::openai::conversation::parse_body;

/// A request as a run, and its messages as a client of UAMP would send them.
struct Prepared {
    run: RunRequest,
    messages: Vec<Message>,
}

impl EventRequest {
    /// Answers with server-sent events, then `[DONE]`.
    ///
    /// # Errors
    /// Why the session is refused. A request that is not valid is answered as OpenAI does.
    pub(super) async fn completions(self, body: Body) -> Result<Response, Refusal> {
        let Some(identity) = &self.identity else {
            let message = "the request has no token; send the header `Authorization: Bearer <token>`";
            return Err(Refusal::new(ErrorCode::Unauthorized, message));
        };
        let Prepared { run, messages } = match self.prepare(body).await {
            Ok(prepared) => prepared,
            Err(error) => return Ok(error.response()),
        };
        let create = SessionCreate {
            agent: Some(run.agent.name().to_string()),
            payment_token: self.payment_token(),
            ..SessionCreate::default()
        };
        let principal = identity.principal.clone();
        let run = RunRequest { options: RunOptions { principal, ..run.options }, ..run };
        let opened = self.opener.open_for(&self.route, create, Some(identity), Some(Arc::new(run))).await?;
        let input = InputText { messages: Some(messages), ..InputText::default() };
        let events =
            vec![ClientEvent::InputText(Box::new(input)), ClientEvent::ResponseCreate(Box::default())];
        self.respond(opened, events).await
    }

    async fn prepare(&self, body: Body) -> Result<Prepared, ApiError> {
        let bytes = body.bytes().await?;
        let request: ChatRequest = parse_body(&bytes)?;
        let site = &self.opener.site;
        let model = request.model().filter(|model| !model.is_empty());
        let agent = self.route.agent(site, model).map_err(|error| match model {
            Some(_) => ApiError::model_not_found(&error),
            None => ApiError::missing("model", format!("name an agent as the model: {}", error.known)),
        })?;
        let messages = request.messages()?;
        Ok(Prepared { run: request.into_run(agent, &*site.ids, &*site.clock)?, messages })
    }
}
