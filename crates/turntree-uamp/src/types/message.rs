//! Messages: the history that a client sends.
//!
//! Spec: UAMP-1.0 §8.5

use super::content::ContentItem;

text_enum! {
    /// Who speaks.
    Role {
        /// The user.
        User = "user",
        /// The operator of the agent.
        System = "system",
        /// The agent.
        Assistant = "assistant",
        /// A tool.
        Tool = "tool",
    }
}

object! {
    /// The function of a call, in the form of Chat Completions.
    FunctionCall {
        /// The name of the tool.
        pub name: String = "name",
        /// The arguments as JSON text.
        pub arguments: Option<String> = "arguments",
    }
}

object! {
    /// A call in a message: `{id, name, arguments}`, or the form of Chat Completions, `{id, type, function}`.
    MessageToolCall {
        /// The id of the call.
        pub id: String = "id",
        /// The name of the tool.
        pub name: Option<String> = "name",
        /// The arguments as JSON text.
        pub arguments: Option<String> = "arguments",
        /// Name and arguments in the form of Chat Completions.
        pub function: Option<FunctionCall> = "function",
    }
}

impl MessageToolCall {
    /// The name of the tool.
    pub fn tool_name(&self) -> Option<&str> {
        self.name.as_deref().or_else(|| self.function.as_ref().map(|function| function.name.as_str()))
    }

    /// The arguments as JSON text; `{}` if there are none.
    pub fn tool_arguments(&self) -> &str {
        let of_function = || self.function.as_ref().and_then(|function| function.arguments.as_deref());
        self.arguments.as_deref().or_else(of_function).unwrap_or("{}")
    }
}

object! {
    /// A message of a conversation.
    Message {
        /// Who speaks.
        pub role: Role = "role",
        /// The text. With `content_items`, their text.
        pub content: Option<String> = "content",
        /// The content with media.
        pub content_items: Option<Vec<ContentItem>> = "content_items",
        /// The name of the participant.
        pub name: Option<String> = "name",
        /// The call that a message of a tool answers.
        pub tool_call_id: Option<String> = "tool_call_id",
        /// The calls of a message of the agent.
        pub tool_calls: Option<Vec<MessageToolCall>> = "tool_calls",
    }
}

impl Message {
    /// A message with text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: Some(text.into()), ..Self::default() }
    }
}
