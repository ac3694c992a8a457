//! Transcripts: a thread as text for humans.

use super::action::Action;
use super::content::{Attachment, ContentPart, MessageContent};
use super::document::Thread;
use turntree_core::json::RawJson;
use turntree_core::render::{EntryKind, Transcript, TranscriptEntry};

impl Thread {
    /// The thread as a transcript.
    pub fn transcript(&self) -> Transcript {
        let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut summary = format!(
            "{} · {} · {} · thread {}",
            count(self.actions.len(), "action"),
            count(self.agents.len(), "agent"),
            self.created_at,
            self.thread_id
        );
        if let Some(parent) = &self.parent_thread_id {
            summary.push_str(" · branch of ");
            summary.push_str(parent);
        }
        Transcript {
            title: if self.title.is_empty() {
                "Thread without a title".to_owned()
            } else {
                self.title.clone()
            },
            summary,
            drawing: String::new(),
            entries: self.actions.iter().map(|action| self.entry(action)).collect(),
        }
    }

    fn entry(&self, action: &Action) -> TranscriptEntry {
        let who = action.agent_id().map(|id| {
            self.agents
                .get(id)
                .map(|agent| agent.agent_name.clone())
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| id.to_owned())
        });
        let who = who.unwrap_or_default();
        let (kind, head, text) = match action {
            Action::UserMessage(message) => {
                let attached = message.attachments.as_deref().unwrap_or_default().iter().map(attachment);
                let lines: Vec<_> = std::iter::once(content_text(&message.content)).chain(attached).collect();
                (EntryKind::User, "user".to_owned(), lines.join("\n"))
            }
            Action::AssistantMessage(message) => (EntryKind::Agent, who, content_text(&message.content)),
            Action::Thinking(thinking) => {
                let text = thinking.content.clone().unwrap_or_else(|| "[sealed by the provider]".to_owned());
                (EntryKind::Thought, format!("{who} thinks"), text)
            }
            Action::ToolCall(call) => (
                EntryKind::Call,
                format!("{who} calls {} ({})", call.tool_name, call.tool_call_id),
                plain(&call.args),
            ),
            Action::ToolReturn(answer) => {
                let ok = answer.status == "success";
                let kind = if ok { EntryKind::Return } else { EntryKind::Failure };
                let verb = if ok { "returns".to_owned() } else { format!("fails: {}", answer.status) };
                (
                    kind,
                    format!("{} ({}) {verb}", answer.tool_name, answer.tool_call_id),
                    plain(&answer.content),
                )
            }
            Action::System(event) => (EntryKind::System, event.action_type.to_string(), plain(&event.data)),
            Action::Other(event) => (EntryKind::System, event.action_type.to_string(), String::new()),
        };
        TranscriptEntry { kind, head, time: action.timestamp().to_owned(), text }
    }
}

/// The text of a string, the JSON of any other value.
fn plain(value: &RawJson) -> String {
    value.as_string().unwrap_or_else(|| value.get().to_owned())
}

fn content_text(content: &MessageContent) -> String {
    match content {
        MessageContent::Text(text) => text.clone(),
        MessageContent::Parts(parts) => parts.iter().map(part).collect::<Vec<_>>().join("\n"),
    }
}

/// The text of a part; a placeholder with type, name and size for media.
fn part(part: &ContentPart) -> String {
    macro_rules! media {
        ($what:literal, $part:expr) => {
            placeholder(
                $what,
                $part.media_type.as_deref(),
                [&$part.name, &$part.url, &$part.file_id],
                $part.base64.as_deref(),
            )
        };
    }
    match part {
        ContentPart::Text(text) => text.text.clone(),
        ContentPart::Image(part) => media!("image", part),
        ContentPart::File(part) => media!("file", part),
        ContentPart::Audio(part) => media!("audio", part),
        ContentPart::Video(part) => media!("video", part),
        ContentPart::Unknown(_) => format!("[{}]", serde_json::to_string(part).unwrap_or_default()),
    }
}

fn attachment(attachment: &Attachment) -> String {
    let name = Some(attachment.name.clone());
    placeholder(
        "attachment",
        Some(&attachment.media_type),
        [&name, &attachment.url, &None],
        attachment.data.as_deref(),
    )
}

fn placeholder(
    what: &str,
    media_type: Option<&str>,
    names: [&Option<String>; 3],
    base64: Option<&str>,
) -> String {
    let mut labels = vec![what.to_owned()];
    labels.extend(media_type.map(str::to_owned));
    labels.extend(names.into_iter().flatten().cloned());
    labels.extend(base64.map(|data| format!("{} bytes", data.len() / 4 * 3)));
    format!("[{}]", labels.join(" "))
}
