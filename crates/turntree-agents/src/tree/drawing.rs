//! Draws a tree as text: one line per node, with its name, message count and first words.

use std::fmt;

use crate::tree::node::ThreadNode;
use crate::tree::thread_tree::ThreadTree;
use turntree_core::message::MessageKind;
use turntree_core::render::escaped;

/// The maximum number of characters of a name and of a node's first words.
const MAX_TEXT: usize = 48;

/// A drawing of a tree: text through `Display`, or HTML for notebooks through [`Self::html`].
///
/// ```text
/// main · 4 messages · What is a tree?
/// ├─ in-french (after 2) · 2 messages · En français ?  ← current
/// └─ 8f14e45f (after 4) · 0 messages
/// ```
#[derive(Debug)]
pub struct Drawing {
    lines: Vec<Line>,
    left_out: usize,
    /// The label of the current node if it has no line.
    current: Option<String>,
}

#[derive(Debug)]
struct Line {
    /// The branch lines before the name.
    rule: String,
    name: String,
    details: String,
    current: bool,
}

/// A node that is not drawn yet.
struct PendingNode {
    index: usize,
    rule: String,
    /// The start of the lines below it.
    indent: String,
}

impl ThreadTree {
    /// Draws the first `lines` nodes: parents before children, older branches first.
    pub fn draw(&self, lines: usize) -> Drawing {
        let mut drawing =
            Drawing { lines: Vec::new(), left_out: self.node_count().saturating_sub(lines), current: None };
        let mut shows_current = false;
        let mut pending =
            vec![PendingNode { index: self.root_index(), rule: String::new(), indent: String::new() }];
        while let Some(next) = pending.pop() {
            if drawing.lines.len() == lines {
                break;
            }
            let node = self.at(next.index);
            let current = node.id == self.current().id;
            shows_current |= current;
            // Skip branches for which no lines are left.
            let remaining = lines - drawing.lines.len();
            let last = node.children.len().saturating_sub(1);
            let children = node.children.iter().enumerate().take(remaining);
            let mut branches: Vec<PendingNode> = children
                .filter_map(|(position, child)| {
                    let (rule, below) =
                        if position == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                    let index = self.index_of(child.as_str()).ok()?;
                    let (rule, indent) =
                        (format!("{}{rule}", next.indent), format!("{}{below}", next.indent));
                    Some(PendingNode { index, rule, indent })
                })
                .collect();
            branches.reverse();
            drawing.lines.push(Line {
                rule: next.rule,
                name: label(node),
                details: self.details(next.index),
                current,
            });
            pending.extend(branches);
        }
        if !shows_current {
            drawing.current = Some(label(self.current()));
        }
        drawing
    }

    fn details(&self, index: usize) -> String {
        let node = self.at(index);
        let parent = (index != self.root_index()).then(|| self.at(self.parent(index)));
        let length = node.thread.messages.len();
        let mut details = String::new();
        if let (Some(point), Some(parent)) = (node.branch_point, parent)
            && point < parent.thread.messages.len()
        {
            details = format!(" (after {point})");
        }
        details.push_str(" · ");
        details.push_str(&length.to_string());
        details.push_str(if length == 1 { " message" } else { " messages" });
        let message = first_words(node);
        if !message.is_empty() {
            details.push_str(" · ");
            details.push_str(&message);
        }
        details
    }
}

/// Returns the name of a node, or the start of its id.
fn label(node: &ThreadNode) -> String {
    match node.name.as_deref().map(single_line) {
        Some(name) if !name.is_empty() => name,
        _ => single_line(node.id.as_str()).chars().take(8).collect(),
    }
}

/// Returns the start of the first user message, or else of the first message that has text.
fn first_words(node: &ThreadNode) -> String {
    let messages = &node.thread.messages;
    let user = messages.iter().take(16).find(|message| message.kind() == MessageKind::User);
    user.into_iter()
        .chain(messages.iter().take(4))
        .map(|message| single_line(&message.text()))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

/// Returns a text as one short line, without line breaks, control characters and changes of direction.
fn single_line(text: &str) -> String {
    let is_shown = |character: char| {
        !character.is_control()
            && !matches!(character, '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
    };
    let mut line = String::new();
    let mut length = 0;
    // Split at whitespace before removing control characters: a line break separates words.
    for word in text.split_whitespace() {
        for character in
            (!line.is_empty()).then_some(' ').into_iter().chain(word.chars().filter(|c| is_shown(*c)))
        {
            if length == MAX_TEXT {
                line.pop();
                line.push('…');
                return line;
            }
            line.push(character);
            length += 1;
        }
    }
    line
}

impl fmt::Display for Drawing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines.iter().enumerate() {
            let mark = if line.current { "  ← current" } else { "" };
            let end = if index == 0 { "" } else { "\n" };
            write!(formatter, "{end}{}{}{}{mark}", line.rule, line.name, line.details)?;
        }
        if let Some(note) = self.note() {
            write!(formatter, "\n{note}")?;
        }
        Ok(())
    }
}

impl Drawing {
    /// Describes the nodes that are not drawn.
    fn note(&self) -> Option<String> {
        let current = self.current.as_ref().map_or_else(String::new, |name| format!("; current: {name}"));
        (self.left_out > 0).then(|| format!("… {} more node(s){current}", self.left_out))
    }

    /// Returns the drawing as HTML with all text escaped.
    pub fn html(&self) -> String {
        let mut out = String::from("<pre style=\"line-height:1.35\">");
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            let (open, close) = if line.current { ("<b>", "</b>") } else { ("", "") };
            let mark = if line.current { "  ← current" } else { "" };
            out.extend([&line.rule, open, &escaped(&line.name), close]);
            out.extend(["<span style=\"opacity:.7\">", &escaped(&line.details), mark, "</span>"]);
        }
        if let Some(note) = self.note() {
            out.push('\n');
            out.push_str(&escaped(&note));
        }
        out.push_str("</pre>");
        out
    }
}
