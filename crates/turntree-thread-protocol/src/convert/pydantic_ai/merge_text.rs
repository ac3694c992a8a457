//! Merges adjacent texts and files of a response into one assistant message. Decision 6.

use std::borrow::Cow;

use super::content_items;
use super::field_layout::{Expected, FieldLayouts};
use super::model::{Part, part_kind};
use super::options::CombineText;
use super::part_to_actions::{EncodeContext, EncodedPart, write_part_diff};
use super::portable;
use super::roundtrip_metadata::ObjectWriter;
use crate::action::{Action, AssistantMessageAction};
use crate::content::{ContentPart, MessageContent};
use crate::convert::portable::DeferredAction;

/// The result for one text or file.
#[derive(Debug)]
pub(super) enum MergedPart {
    /// An assistant message of its own.
    Whole(EncodedPart),
    /// The first part of a merged message.
    First {
        /// The message.
        encoded: EncodedPart,
        /// The number of the run.
        run: usize,
        /// The members of this part's layout entry.
        entry: String,
    },
    /// A later part of a merged message.
    Next {
        /// The number of the run.
        run: usize,
        /// The members of this part's layout entry.
        entry: String,
    },
    /// No action, because the text is empty.
    Empty,
    /// A file after a call, in stream order (portable profile).
    Deferred(DeferredAction),
}

/// Texts and files that form one message.
#[derive(Debug, Default)]
struct TextRun {
    pieces: Vec<RunPiece>,
    content: Vec<ContentPart>,
    /// The index of the last part, including empty texts.
    last: usize,
    /// True if sources follow the run in a stream.
    cited: bool,
}

/// One part of a run.
#[derive(Debug)]
struct RunPiece {
    /// The index of the part in the response.
    index: usize,
    /// The index of its content part.
    item: usize,
    /// The number of separator characters before it.
    gap: usize,
    /// For files, the metadata that the content part does not hold; `Some(None)` if the message can only be preserved
    /// verbatim.
    #[expect(clippy::option_option, reason = "no file, a file without metadata, a file with metadata")]
    file: Option<Option<String>>,
}

impl TextRun {
    /// Appends a text or a file. Texts that are not adjacent are separated.
    fn push(
        &mut self,
        index: usize,
        text: Option<Cow<'_, str>>,
        file: Option<(ContentPart, Option<Cow<'_, str>>)>,
        adjacent: bool,
    ) {
        self.last = index;
        let (mut gap, mut entry) = (0, None);
        match (text, file, self.content.last_mut()) {
            (Some(text), _, Some(ContentPart::Text(before))) => {
                if !adjacent && !text.is_empty() {
                    before.text.push_str(SEPARATOR);
                    gap = SEPARATOR.len();
                }
                before.text.push_str(&text);
            }
            (Some(text), ..) => self.content.push(ContentPart::text(text)),
            (None, Some((file, metadata)), _) => {
                self.content.push(file);
                entry = Some(metadata.map(String::from));
            }
            (None, None, _) => {}
        }
        self.pieces.push(RunPiece { index, item: self.content.len().saturating_sub(1), gap, file: entry });
    }
}

/// Decides the result of every text and file: one entry per part, `None` for other parts.
pub(super) fn join_texts<'a>(
    parts: &[Part<'a>],
    combine: CombineText,
    context: &EncodeContext<'_>,
    layouts: &mut FieldLayouts<'a>,
) -> Vec<Option<MergedPart>> {
    let mut joined: Vec<Option<MergedPart>> = Vec::new();
    joined.resize_with(parts.len(), || None);
    for (number, run) in runs(parts, combine, context, layouts, &mut joined).into_iter().enumerate() {
        match run.pieces.as_slice() {
            [RunPiece { index, file: None, .. }] => {
                let Some(part) = parts.get(*index) else { continue };
                let index = *index;
                let action = message(run.content, context);
                let mut writer = ObjectWriter::default();
                let exact = write_part_diff(part, "text", &action, layouts, &mut writer);
                let encoded = EncodedPart {
                    action,
                    fragment: writer.into_fragment(),
                    before: None,
                    deferred: Vec::new(),
                    irregular: exact.is_none(),
                    exact: exact.unwrap_or(false),
                };
                set(&mut joined, index, MergedPart::Whole(encoded));
            }
            _ => join_run(number, run, parts, context, layouts, &mut joined),
        }
    }
    joined
}

fn set(joined: &mut [Option<MergedPart>], index: usize, value: MergedPart) {
    if let Some(entry) = joined.get_mut(index) {
        *entry = Some(value);
    }
}

/// Collects the runs of texts and files. Empty texts outside of a run become [`MergedPart::Empty`].
fn runs<'a>(
    parts: &[Part<'a>],
    combine: CombineText,
    context: &EncodeContext<'_>,
    layouts: &mut FieldLayouts<'a>,
    joined: &mut [Option<MergedPart>],
) -> Vec<TextRun> {
    let mut runs: Vec<TextRun> = Vec::new();
    let mut called = false;
    for (index, part) in parts.iter().enumerate() {
        let kind = part_kind(part);
        called |= portable::is_call(part);
        let text = if kind == "text" { part.text("content") } else { None };
        let file = if kind == "file" {
            part.get("content").and_then(|content| content_items::encode_file(content, layouts))
        } else {
            None
        };
        if text.is_none() && file.is_none() {
            continue;
        }
        if let Some((file, _)) = file.as_ref().filter(|_| context.portable && called) {
            set(joined, index, MergedPart::Deferred(portable::file(file, context.timestamp)));
            continue;
        }
        let adjacent = runs.last().is_some_and(|run| run.last + 1 == index);
        // In a stream, the cited sources separate a text from a file.
        let parted = file.is_some() && runs.last().is_some_and(|run| run.cited);
        let goes_on = runs.last().is_some() && !parted && (adjacent || combine == CombineText::Response);
        let last_is_text = goes_on
            && runs.last().and_then(|run| run.content.last()).is_some_and(|part| part.as_text().is_some());
        if text.as_deref() == Some("") && !last_is_text {
            set(joined, index, MergedPart::Empty);
            if let Some(run) = runs.last_mut().filter(|_| adjacent) {
                run.last = index;
            }
            continue;
        }
        if !goes_on {
            runs.push(TextRun::default());
        }
        let Some(run) = runs.last_mut() else { continue };
        run.cited |= context.portable && portable::cites(part);
        run.push(index, text, file, adjacent);
    }
    runs
}

/// The separator between texts that are not adjacent.
const SEPARATOR: &str = "\n\n";

fn join_run<'a>(
    number: usize,
    run: TextRun,
    parts: &[Part<'a>],
    context: &EncodeContext<'_>,
    layouts: &mut FieldLayouts<'a>,
    joined: &mut [Option<MergedPart>],
) {
    let one_text = matches!(run.content.as_slice(), [ContentPart::Text(_)]);
    let action = message(run.content, context);
    let (mut entries, mut irregular) = (Vec::new(), false);
    for piece in run.pieces {
        let Some(part) = parts.get(piece.index) else { continue };
        let mut writer = ObjectWriter::default();
        irregular |= !write_piece(&mut writer, &piece, part, one_text, layouts);
        entries.push((piece.index, writer.into_fragment()));
    }
    let mut encoded = Some(EncodedPart {
        action,
        fragment: String::new(),
        before: None,
        deferred: Vec::new(),
        irregular,
        exact: false,
    });
    for (index, entry) in entries {
        let piece = match encoded.take() {
            Some(encoded) => MergedPart::First { encoded, run: number, entry },
            None => MergedPart::Next { run: number, entry },
        };
        set(joined, index, piece);
    }
}

/// Writes the layout entry of a part. `false` if the message can only be preserved verbatim.
fn write_piece<'a>(
    writer: &mut ObjectWriter,
    piece: &RunPiece,
    part: &Part<'a>,
    one_text: bool,
    layouts: &mut FieldLayouts<'a>,
) -> bool {
    let mut regular = true;
    if !one_text {
        writer.json("item", &piece.item.to_string());
    }
    let class = if piece.file.is_some() { "file" } else { "text" };
    if let Some(entry) = &piece.file {
        writer.text("kind", "file");
        regular &= entry.is_some();
        if let Some(entry) = entry.as_ref().filter(|entry| *entry != "null") {
            writer.json("file", entry);
        }
    } else {
        if piece.gap > 0 {
            writer.json("gap", &piece.gap.to_string());
        }
        let length = part.text("content").unwrap_or_default().chars().count();
        writer.json("length", &length.to_string());
    }
    layouts.observe(class, part);
    let diff = layouts.get(class).and_then(|layout| {
        layout.diff(part, |key| match key {
            "content" => Expected::Covered,
            "part_kind" => Expected::text(class),
            _ => Expected::Default,
        })
    });
    if let Some(diff) = &diff {
        writer.write_diff(diff, "keys", "part");
    }
    regular && diff.is_some()
}

/// The message of a content: a string for a single text, a list otherwise.
fn message(mut content: Vec<ContentPart>, context: &EncodeContext<'_>) -> Action {
    let content = match content.pop() {
        Some(ContentPart::Text(only)) if content.is_empty() => MessageContent::Text(only.text),
        last => {
            content.extend(last);
            MessageContent::Parts(content)
        }
    };
    Action::AssistantMessage(AssistantMessageAction {
        timestamp: context.timestamp.into(),
        agent_id: context.agent_id.into(),
        content,
        ..AssistantMessageAction::default()
    })
}

/// The text after `gap` characters, with `length` characters, and its end.
pub(super) fn cut(text: &str, start: usize, gap: usize, length: usize) -> Option<(&str, usize)> {
    let bytes = |from: usize, count: usize| {
        let rest = text.get(from..)?;
        Some(from + rest.char_indices().nth(count).map_or(rest.len(), |(index, _)| index))
    };
    let begin = bytes(start, gap)?;
    let end = bytes(begin, length)?;
    Some((text.get(begin..end)?, end))
}
