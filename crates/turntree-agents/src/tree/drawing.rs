//! A tree as text, for people: one line a node with its name, how much it holds and how it begins.

use std::fmt;

use crate::tree::node::ThreadNode;
use crate::tree::thread_tree::ThreadTree;
use turntree_core::message::MessageKind;
use turntree_core::render::escaped;

/// Most characters that are shown of a name and of what is said first.
const SHOWN: usize = 48;

/// A drawing of a tree. `Display` gives text, [`Self::html`] the same for notebooks.
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
    /// The current node where it is not among the lines.
    current: Option<String>,
}

#[derive(Debug)]
struct Line {
    /// The lines of the tree before the name.
    rule: String,
    name: String,
    rest: String,
    current: bool,
}

/// A node that waits to be drawn.
struct Waiting {
    place: usize,
    rule: String,
    /// What the lines below it begin with.
    indent: String,
}

impl ThreadTree {
    /// Draws the first `lines` nodes, parents before children and older branches first.
    pub fn draw(&self, lines: usize) -> Drawing {
        let mut drawing =
            Drawing { lines: Vec::new(), left_out: self.node_count().saturating_sub(lines), current: None };
        let mut shows_current = false;
        let mut waiting =
            vec![Waiting { place: self.root_place(), rule: String::new(), indent: String::new() }];
        while let Some(next) = waiting.pop() {
            if drawing.lines.len() == lines {
                break;
            }
            let node = self.at(next.place);
            let current = node.id == self.current().id;
            shows_current |= current;
            // Of a node with many branches only those are prepared that can still be drawn.
            let room = lines - drawing.lines.len();
            let last = node.children.len().saturating_sub(1);
            let children = node.children.iter().enumerate().take(room);
            let mut branches: Vec<Waiting> = children
                .filter_map(|(index, child)| {
                    let (rule, below) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                    let place = self.place(child.as_str()).ok()?;
                    let (rule, indent) =
                        (format!("{}{rule}", next.indent), format!("{}{below}", next.indent));
                    Some(Waiting { place, rule, indent })
                })
                .collect();
            branches.reverse();
            drawing.lines.push(Line {
                rule: next.rule,
                name: label(node),
                rest: self.rest(next.place),
                current,
            });
            waiting.extend(branches);
        }
        if !shows_current {
            drawing.current = Some(label(self.current()));
        }
        drawing
    }

    fn rest(&self, place: usize) -> String {
        let node = self.at(place);
        let parent = (place != self.root_place()).then(|| self.at(self.parent(place)));
        let length = node.thread.messages.len();
        let mut rest = String::new();
        if let (Some(point), Some(parent)) = (node.branch_point, parent)
            && point < parent.thread.messages.len()
        {
            rest = format!(" (after {point})");
        }
        rest.push_str(" · ");
        rest.push_str(&length.to_string());
        rest.push_str(if length == 1 { " message" } else { " messages" });
        let said = first_words(node);
        if !said.is_empty() {
            rest.push_str(" · ");
            rest.push_str(&said);
        }
        rest
    }
}

/// Its name, or as much of its id as tells it from others.
fn label(node: &ThreadNode) -> String {
    match node.name.as_deref().map(plain) {
        Some(name) if !name.is_empty() => name,
        _ => node.id.as_str().chars().take(8).filter(|character| !character.is_control()).collect(),
    }
}

/// How its thread begins: with the first thing a person says in it, else with whatever has words.
fn first_words(node: &ThreadNode) -> String {
    let messages = &node.thread.messages;
    let user = messages.iter().take(16).find(|message| message.kind() == MessageKind::User);
    user.into_iter()
        .chain(messages.iter().take(4))
        .map(|message| plain(&message.text()))
        .find(|words| !words.is_empty())
        .unwrap_or_default()
}

/// One short line of a text: no line breaks, nothing that a terminal would obey, no change of direction.
fn plain(text: &str) -> String {
    let is_shown = |character: char| {
        !character.is_control()
            && !matches!(character, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
    };
    let mut line = String::new();
    let mut length = 0;
    // Whitespace counts before controls are dropped: a line break separates words.
    for word in text.split_whitespace() {
        for character in
            (!line.is_empty()).then_some(' ').into_iter().chain(word.chars().filter(|c| is_shown(*c)))
        {
            if length == SHOWN {
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
            write!(formatter, "{end}{}{}{}{mark}", line.rule, line.name, line.rest)?;
        }
        if let Some(note) = self.note() {
            write!(formatter, "\n{note}")?;
        }
        Ok(())
    }
}

impl Drawing {
    /// What is not drawn.
    fn note(&self) -> Option<String> {
        let current = self.current.as_ref().map_or_else(String::new, |name| format!("; current: {name}"));
        (self.left_out > 0).then(|| format!("… {} more node(s){current}", self.left_out))
    }

    /// The drawing as HTML, everything escaped.
    pub fn html(&self) -> String {
        let mut out = String::from("<pre style=\"line-height:1.35\">");
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            let (open, close) = if line.current { ("<b>", "</b>") } else { ("", "") };
            let mark = if line.current { "  ← current" } else { "" };
            out.extend([&line.rule, open, &escaped(&line.name), close]);
            out.extend(["<span style=\"opacity:.7\">", &escaped(&line.rest), mark, "</span>"]);
        }
        if let Some(note) = self.note() {
            out.push('\n');
            out.push_str(&escaped(&note));
        }
        out.push_str("</pre>");
        out
    }
}
