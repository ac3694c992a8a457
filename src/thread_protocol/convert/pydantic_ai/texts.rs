//! The texts of an answer: one assistant message for those that stand together. Decision 6.

use super::CombineText;
use super::envelope::ObjectWriter;
use super::model::{Part, part_kind};
use super::parts::{Encoded, Surroundings, write_residue};
use super::profile::{Expected, Profile};
use crate::thread_protocol::action::{Action, AssistantMessageAction};
use crate::thread_protocol::content::MessageContent;

/// What a text part became.
#[derive(Debug)]
pub(super) enum Joined {
    /// An assistant message of its own.
    Whole(Encoded),
    /// The assistant message of a run of parts, and this part's piece of it.
    First {
        /// The message.
        encoded: Encoded,
        /// Which run.
        run: usize,
        /// The piece: members of its layout entry.
        entry: String,
    },
    /// A later piece.
    Next {
        /// Of which run.
        run: usize,
        /// The piece: members of its layout entry.
        entry: String,
    },
    /// No action: the text is empty.
    Nothing,
}

/// A run of text parts that make one message.
#[derive(Debug, Default)]
struct Run {
    /// Their places, each with the characters of separator before it.
    parts: Vec<(usize, usize)>,
    text: String,
}

/// Decides for every text part what it becomes; one entry a part, `None` for parts that are no text.
pub(super) fn join_texts<'a>(
    parts: &[Part<'a>],
    combine: CombineText,
    around: &Surroundings<'_>,
    profile: &mut Profile<'a>,
) -> Vec<Option<Joined>> {
    let mut joined: Vec<Option<Joined>> = Vec::new();
    joined.resize_with(parts.len(), || None);
    for (number, run) in runs(parts, combine).into_iter().enumerate() {
        match run.parts.as_slice() {
            _ if run.text.is_empty() => {
                for (place, _) in run.parts {
                    set(&mut joined, place, Joined::Nothing);
                }
            }
            [(only, _)] => {
                let Some(part) = parts.get(*only) else { continue };
                let action = message(run.text, around);
                let mut writer = ObjectWriter::default();
                let irregular = !write_residue(part, "text", &action, profile, &mut writer);
                let encoded = Encoded { action, fragment: writer.into_fragment(), before: None, irregular };
                set(&mut joined, *only, Joined::Whole(encoded));
            }
            _ => join_run(number, run, parts, around, profile, &mut joined),
        }
    }
    joined
}

fn set(joined: &mut [Option<Joined>], place: usize, value: Joined) {
    if let Some(entry) = joined.get_mut(place) {
        *entry = Some(value);
    }
}

/// The runs of text parts, with their joined texts.
fn runs(parts: &[Part<'_>], combine: CombineText) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        if part_kind(part) != "text" {
            continue;
        }
        let Some(text) = part.text("content") else { continue };
        let adjacent =
            runs.last().and_then(|run| run.parts.last()).is_some_and(|(last, _)| last + 1 == place);
        match runs.last_mut() {
            Some(run) if adjacent || combine == CombineText::Response => {
                let separator = if adjacent || run.text.is_empty() || text.is_empty() { "" } else { "\n\n" };
                run.text.push_str(separator);
                run.text.push_str(&text);
                run.parts.push((place, separator.len()));
            }
            _ => runs.push(Run { parts: vec![(place, 0)], text: text.into_owned() }),
        }
    }
    runs
}

fn join_run<'a>(
    number: usize,
    run: Run,
    parts: &[Part<'a>],
    around: &Surroundings<'_>,
    profile: &mut Profile<'a>,
    joined: &mut [Option<Joined>],
) {
    let action = message(run.text, around);
    let (mut pieces, mut irregular) = (Vec::new(), false);
    for (place, gap) in run.parts {
        let Some(part) = parts.get(place) else { continue };
        let text = part.text("content").unwrap_or_default();
        let mut writer = ObjectWriter::default();
        if gap > 0 {
            writer.json("gap", &gap.to_string());
        }
        writer.json("length", &text.chars().count().to_string());
        profile.observe("text", part);
        let residue = profile.template("text").and_then(|template| {
            template.residue(part, |key| match key {
                "content" => Expected::Covered,
                "part_kind" => Expected::text("text"),
                _ => Expected::Default,
            })
        });
        irregular |= residue.is_none();
        if let Some(residue) = &residue {
            writer.residue(residue, "keys", "part");
        }
        pieces.push((place, writer.into_fragment()));
    }
    let mut encoded = Some(Encoded { action, fragment: String::new(), before: None, irregular });
    for (place, entry) in pieces {
        let piece = match encoded.take() {
            Some(encoded) => Joined::First { encoded, run: number, entry },
            None => Joined::Next { run: number, entry },
        };
        set(joined, place, piece);
    }
}

fn message(text: String, around: &Surroundings<'_>) -> Action {
    Action::AssistantMessage(AssistantMessageAction {
        timestamp: around.timestamp.to_owned(),
        agent_id: around.agent_id.to_owned(),
        content: MessageContent::Text(text),
        ..AssistantMessageAction::default()
    })
}

/// The piece of a text after `gap` characters, of `length` characters, and where it ends.
pub(super) fn cut(text: &str, start: usize, gap: usize, length: usize) -> Option<(&str, usize)> {
    let bytes = |from: usize, count: usize| {
        let rest = text.get(from..)?;
        Some(from + rest.char_indices().nth(count).map_or(rest.len(), |(place, _)| place))
    };
    let begin = bytes(start, gap)?;
    let end = bytes(begin, length)?;
    Some((text.get(begin..end)?, end))
}
