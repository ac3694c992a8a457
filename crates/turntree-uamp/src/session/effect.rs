//! What a session asks its host to do, and what an agent tells the session.

use crate::event::{Progress, ServerEvent};
use crate::payments::{PaymentReceipt, PaymentRefusal};
use crate::types::{
    ContentItem, ErrorDetails, Message, Payment, PaymentRequirements, ResponseFormat, ResponseOptions,
    ToolCall, ToolDefinition, UsageStats,
};

/// A response that the agent must produce.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResponseRequest {
    /// The response.
    pub response_id: String,
    /// The messages since the last start. Those of the operator come first, and come again with each start.
    pub messages: Vec<Message>,
    /// True if the messages are the whole conversation.
    pub replaces: bool,
    /// Instructions for the agent: those of the response, or those of the session.
    pub instructions: Option<String>,
    /// Tools that the client runs: those of the response, or those of the session.
    pub tools: Vec<ToolDefinition>,
    /// The other settings of the response.
    pub options: Option<ResponseOptions>,
    /// The form of the output: that of the response, or that of the session.
    pub response_format: Option<ResponseFormat>,
}

/// The result of a tool that the client ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The call.
    pub call_id: String,
    /// The result as JSON text.
    pub result: String,
    /// True if the tool failed.
    pub is_error: bool,
}

/// What the host of a session must do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send an event to the client.
    Send(ServerEvent),
    /// Send an event to the other participants of the chat.
    Broadcast(ServerEvent),
    /// Ask whether the response must be paid; [`PaymentOutcome`] is the answer.
    CheckPayment {
        /// The response.
        response_id: String,
        /// The payment token that the client has sent.
        payment_token: Option<String>,
    },
    /// Check a payment; [`PaymentOutcome`] is the answer.
    SubmitPayment {
        /// The response.
        response_id: String,
        /// The payment.
        payment: Box<Payment>,
    },
    /// Start the agent.
    Start(Box<ResponseRequest>),
    /// Continue the agent with the results of all tools that it asked the client to run, in the order of the calls.
    Resume {
        /// The response.
        response_id: String,
        /// The results.
        results: Vec<ToolOutcome>,
    },
    /// Cancel the agent with its tools and its sub-agents, or the check of a payment.
    Cancel {
        /// The response.
        response_id: String,
    },
    /// Remove the session.
    Close,
}

/// What a payment gate has decided.
#[derive(Debug, Clone, PartialEq)]
pub enum PaymentOutcome {
    /// The response is free, or paid already.
    NotRequired,
    /// The response waits for a payment.
    Required(Box<PaymentRequirements>),
    /// The payment is valid.
    Accepted(Box<PaymentReceipt>),
    /// The payment is refused, or the response cannot be paid.
    Refused(Box<PaymentRefusal>),
}

/// What a session waits for. A host limits the time of each, and calls
/// [`SessionCore::on_timeout`](super::SessionCore::on_timeout).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// The next request of the client.
    Client,
    /// The agent, or the payment gate.
    Agent,
    /// Results of tools that the client runs.
    ToolResults,
    /// A payment of the client.
    Payment,
}

/// What an agent reports while it produces a response.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentOutput {
    /// A piece of text.
    Text(String),
    /// A piece of reasoning.
    Thinking(String),
    /// A new plan of the agent as text.
    Planning(String),
    /// A piece of audio, as base64.
    Audio(String),
    /// A piece of the text of audio.
    Transcript(String),
    /// A piece of a call.
    ToolCallFragment(ToolCall),
    /// A complete call of a tool of the client.
    ClientToolCall(ToolCall),
    /// The client has all of its calls of this step, and the agent waits for their results.
    AwaitingClient,
    /// The result of a tool of the server.
    ServerToolResult(ToolOutcome),
    /// What a tool or a sub-agent reports while it runs.
    ToolProgress {
        /// The call.
        call_id: String,
        /// The report.
        text: String,
    },
    /// The progress of the response.
    Progress(Box<Progress>),
    /// Media that is complete.
    Item(Box<ContentItem>),
    /// The usage of one model call.
    Usage(Box<UsageStats>),
    /// The response is complete.
    Done,
    /// The response has failed.
    Failed(Box<ErrorDetails>),
}
