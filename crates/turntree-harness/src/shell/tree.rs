//! The syntax tree of a script, walked in source order.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::facts::{Command, HIDDEN, Redirect, Script, Stdin, Via, Word};
use super::scope::{ScopeKind, State, Surroundings};
use super::word::{document, words};

/// The longest text that is parsed, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The most nodes that are visited.
const MAX_NODES: usize = 200_000;

/// The most reports of progress of one parse, each of about a hundred operations. A text that needs more counts as not
/// understood. A count and not a time: the same text has the same facts on every machine.
const MAX_REPORTS: usize = 50_000;

/// Reads a text. Commands are as written: wrappers and nested shells are not resolved.
pub(super) fn read(text: &str, surroundings: &Surroundings) -> Script {
    let mut script = Script::default();
    if text.len() > MAX_BYTES {
        script.unknown.push(format!("the command has {} bytes; at most {MAX_BYTES} are read", text.len()));
        return script;
    }
    let joined = join_lines(text, &mut script);
    let text = joined.as_ref();
    let Some(tree) = parse(text) else {
        script.unknown.push("the command cannot be parsed".to_owned());
        return script;
    };
    if tree.root_node().has_error() {
        script.unknown.push("a part of the command is not valid shell syntax".to_owned());
    }
    let state = State::new(surroundings);
    let mut walk = Walk { text, state, script, ancestors: Vec::new(), pipes: BTreeMap::new() };
    walk.run(&tree);
    walk.script
}

/// Joins lines that end in a backslash: the parser takes the end of a line for the end of a word. In a text with quotes or
/// here-documents a backslash may stand for itself; there a continued word is not understood.
fn join_lines<'a>(text: &'a str, script: &mut Script) -> Cow<'a, str> {
    let mut joined = String::new();
    let mut rest = text;
    let mut is_inside = false;
    while let Some(at) = rest.find("\\\n") {
        let (before, after) = rest.split_at(at);
        let after = after.get(2..).unwrap_or_default();
        joined.push_str(before);
        let is_escaped = before.chars().rev().take_while(|char| *char == '\\').count() % 2 == 1;
        if is_escaped {
            joined.push_str("\\\n");
        }
        let touches = |char: Option<char>| char.is_some_and(|char| !char.is_whitespace());
        is_inside |= !is_escaped && touches(before.chars().next_back()) && touches(after.chars().next());
        rest = after;
    }
    if joined.is_empty() {
        return Cow::Borrowed(text);
    }
    joined.push_str(rest);
    if !text.contains(['\'', '#']) && !text.contains("<<") {
        return Cow::Owned(joined);
    }
    if is_inside {
        script.unknown.push("a word continues on the next line".to_owned());
    }
    Cow::Borrowed(text)
}

/// Whether `$'…'` has an escaped quote. Shells that do not know this quotation, such as dash, end the text there.
fn has_escaped_quote(source: &str) -> bool {
    let mut is_escaped = false;
    source.chars().any(|char| {
        let found = is_escaped && char == '\'';
        is_escaped = char == '\\' && !is_escaped;
        found
    })
}

/// Whether a word begins on the next line, and the word: the parser adds the end of the line to a word that a backslash begins.
fn on_line(source: &str) -> (bool, &str) {
    let word = source.trim_start();
    let is_next = source.get(..source.len() - word.len()).is_some_and(|space| space.contains('\n'));
    if is_next { (true, word) } else { (false, source) }
}

fn parse(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut reports = 0_usize;
    let mut progress = |_: &ParseState| {
        reports += 1;
        if reports > MAX_REPORTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let bytes = text.as_bytes();
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
}

struct Walk<'a, 'tree> {
    text: &'a str,
    state: State,
    script: Script,
    ancestors: Vec<Node<'tree>>,
    /// What the last command of each pipeline prints.
    pipes: BTreeMap<usize, Stdin>,
}

impl<'tree> Walk<'_, 'tree> {
    fn run(&mut self, tree: &'tree Tree) {
        let mut cursor = tree.walk();
        for _ in 0..MAX_NODES {
            let node = cursor.node();
            self.state.close_before(node.start_byte());
            if node.is_named() {
                self.enter(node);
            }
            if cursor.goto_first_child() {
                self.ancestors.push(node);
                continue;
            }
            while !cursor.goto_next_sibling() {
                self.ancestors.pop();
                if !cursor.goto_parent() {
                    return;
                }
            }
        }
        self.script.unknown.push("the command has too many parts".to_owned());
    }

    fn source(&self, node: Node<'_>) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn enter(&mut self, node: Node<'tree>) {
        self.enter_list(node);
        match node.kind() {
            "subshell" | "command_substitution" | "process_substitution" => {
                self.scope(node, ScopeKind::Subshell)
            }
            "pipeline" | "if_statement" | "case_statement" => self.scope(node, ScopeKind::Conditional),
            "while_statement" | "for_statement" | "c_style_for_statement" => {
                self.scope(node, ScopeKind::Conditional);
                self.forget_assigned(node);
            }
            "function_definition" => {
                self.scope(node, ScopeKind::Conditional);
                self.state.forget();
                self.state.cwd = None;
            }
            "variable_assignment" if self.parent_kind() != "command" => self.assign(node),
            "unset_command" => self.unset(node),
            "declaration_command" => self.declaration(node),
            "command" => self.command(node),
            "file_redirect" => self.redirect(node),
            "ansi_c_string" if has_escaped_quote(self.source(node)) => {
                self.script.unknown.push("shells disagree where $'…' with an escaped quote ends".to_owned());
            }
            _ => {}
        }
    }

    fn parent_kind(&self) -> &'static str {
        self.ancestors.last().map_or("", Node::kind)
    }

    fn scope(&mut self, node: Node<'_>, kind: ScopeKind) {
        if !self.state.open(node.end_byte(), kind) {
            self.script.unknown.push("the command is nested too deeply".to_owned());
            self.state.forget();
            self.state.cwd = None;
        }
    }

    /// The right side of `&&` or `||` may not run: what it changes is known up to the end of the whole list.
    fn enter_list(&mut self, node: Node<'_>) {
        let Some(parent) = self.ancestors.last().filter(|parent| parent.kind() == "list") else { return };
        if parent.start_byte() == node.start_byte() {
            return;
        }
        let chain = |kind: &str| matches!(kind, "list" | "redirected_statement" | "pipeline");
        let outer =
            self.ancestors.iter().rev().take_while(|node| chain(node.kind())).last().unwrap_or(parent);
        let outer = *outer;
        self.scope(outer, ScopeKind::Conditional);
    }

    /// A loop may see what a later part of its body assigns.
    fn forget_assigned(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut names = Vec::new();
        'walk: for _ in 0..MAX_NODES / 100 {
            let inner = cursor.node();
            if inner.kind() == "variable_name" {
                names.push(self.source(inner).to_owned());
            }
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    break 'walk;
                }
            }
        }
        for name in names {
            self.state.set(name.as_ref(), None);
        }
    }

    fn assign(&mut self, node: Node<'_>) {
        let (name, value) = self.assignment(node);
        self.state.set(&name, value.value().map(str::to_owned));
    }

    fn assignment(&self, node: Node<'_>) -> (String, Word) {
        let name = node.child_by_field_name("name").map(|node| self.source(node)).unwrap_or_default();
        let is_plain = self.source(node).get(name.len()..).is_some_and(|rest| rest.starts_with('='));
        let value = match node.child_by_field_name("value") {
            None if is_plain => Word::exact(""),
            Some(value) if is_plain && value.kind() != "array" => {
                let mut words = words(self.source(value), &self.state);
                if words.len() > 1 { Word::unknown() } else { words.pop().unwrap_or_else(|| Word::exact("")) }
            }
            _ => Word::unknown(),
        };
        (name.to_owned(), value)
    }

    fn unset(&mut self, node: Node<'_>) {
        let text = self.source(node).to_owned();
        text.split_whitespace().skip(1).for_each(|name| self.state.set(name, None));
    }

    fn declaration(&mut self, node: Node<'_>) {
        let mut command = self.new_command();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            if child.kind() == "variable_assignment" {
                command.environment.push(self.assignment(child));
                continue;
            }
            let (is_next_line, source) = on_line(self.source(child));
            command.argv.extend(words(source, &self.state));
            if is_next_line {
                self.script.unknown.push("a line begins with a backslash".to_owned());
            }
        }
        self.script.commands.push(command);
    }

    fn redirect(&mut self, node: Node<'_>) {
        let operator = (0..node.child_count())
            .filter_map(|index| node.child(u32::try_from(index).unwrap_or(u32::MAX)))
            .find(|child| !child.is_named())
            .map(|child| self.source(child).to_owned())
            .unwrap_or_default();
        let Some(target) = node.child_by_field_name("destination") else { return };
        // The parser takes a file from the next line, bash does not: it refuses the whole text.
        let before = self.text.get(node.start_byte()..target.start_byte()).unwrap_or_default();
        if before.contains('\n') {
            self.script.unknown.push("a redirect names no file on its line".to_owned());
        }
        let mut words = words(self.source(target), &self.state);
        let target = if words.len() == 1 { words.pop().unwrap_or_default() } else { Word::unknown() };
        // `2>&1` copies a descriptor.
        let is_descriptor =
            operator.ends_with('&') && target.text.chars().all(|char| char.is_ascii_digit() || char == '-');
        if !is_descriptor {
            self.script.redirects.push(Redirect { operator, target, cwd: self.state.cwd.clone() });
        }
    }

    fn new_command(&self) -> Command {
        let exported = ["GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "HUSKY"];
        let environment = exported
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), Word::exact(self.state.get(name)?))))
            .collect();
        let cwd = self.state.cwd.clone();
        let (argv, wrappers) = (Vec::new(), Vec::new());
        Command { argv, via: Via::Direct, cwd, environment, stdin: Stdin::Inherited, wrappers }
    }

    fn command(&mut self, node: Node<'tree>) {
        let mut command = self.new_command();
        let mut cursor = node.walk();
        let children: Vec<_> = node.children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "variable_assignment" => command.environment.push(self.assignment(child)),
                "file_redirect" => self.more_words(child, &mut command),
                "herestring_redirect" => command.stdin = self.here_string(child),
                // A file whose content another command prints.
                "process_substitution" => command.argv.push(Word::unknown()),
                _ => {
                    let (is_next_line, source) = on_line(self.source(child));
                    let found = words(source, &self.state);
                    let is_of_environment = self.is_of_environment(source);
                    if is_next_line && !command.argv.is_empty() {
                        let next = self.new_command();
                        self.finish(node, std::mem::replace(&mut command, next));
                    }
                    let is_hidden = command.argv.is_empty() && found.first().is_some_and(Word::is_hidden);
                    if is_hidden && !is_of_environment {
                        self.script.unknown.push(HIDDEN.to_owned());
                    }
                    command.argv.extend(found);
                }
            }
        }
        self.finish(node, command);
    }

    /// Whether a word is a variable that the script does not set: `"$PYTHON"`.
    fn is_of_environment(&self, source: &str) -> bool {
        let name = source.trim_matches('"').strip_prefix('$').unwrap_or_default();
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
        let is_name = name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
        is_name && !self.state.is_set(name)
    }

    fn finish(&mut self, node: Node<'tree>, mut command: Command) {
        self.input(node, &mut command);
        self.effects(&command);
        self.script.commands.push(command);
    }

    /// Words that follow the file of a redirect: arguments of the command.
    fn more_words(&mut self, redirect: Node<'_>, command: &mut Command) {
        let mut cursor = redirect.walk();
        let destinations: Vec<_> =
            redirect.children_by_field_name("destination", &mut cursor).skip(1).collect();
        for word in destinations {
            let (is_next_line, source) = on_line(self.source(word));
            let found = words(source, &self.state);
            if is_next_line {
                self.script.unknown.push("a line begins with a backslash".to_owned());
            }
            command.argv.extend(found);
        }
    }

    fn here_string(&self, node: Node<'_>) -> Stdin {
        let text = self.source(node).trim_start_matches('<').trim_start().to_owned();
        let mut words = words(&text, &self.state);
        Stdin::Text(if words.len() == 1 { words.pop().unwrap_or_default() } else { Word::unknown() })
    }

    /// Redirects and pipes around a command.
    fn input(&mut self, node: Node<'tree>, command: &mut Command) {
        let around: Vec<Node<'tree>> = self.ancestors.iter().rev().take(16).copied().collect();
        for outer in around {
            match outer.kind() {
                "redirected_statement" => {
                    let body = outer.child_by_field_name("body");
                    if body.is_some_and(|body| body.end_byte() == node.end_byte()) {
                        self.redirects_of(outer, command);
                    }
                }
                "pipeline" => {
                    let read = self.pipes.get(&outer.id()).cloned();
                    if command.stdin == Stdin::Inherited {
                        // After a here-document the pipeline starts with its `|`.
                        let first = outer.named_child(0).map(|first| first.start_byte());
                        let is_first = first == Some(node.start_byte());
                        let otherwise = if is_first { Stdin::Inherited } else { Stdin::Pipe("?".to_owned()) };
                        command.stdin = read.unwrap_or(otherwise);
                    }
                    self.pipes.insert(outer.id(), output(command));
                }
                "heredoc_redirect" => {
                    if command.stdin == Stdin::Inherited {
                        command.stdin = self.here_document(outer);
                    }
                }
                "negated_command" | "list" => {}
                _ => return,
            }
        }
    }

    fn redirects_of(&mut self, statement: Node<'_>, command: &mut Command) {
        let mut cursor = statement.walk();
        let redirects: Vec<_> = statement.children_by_field_name("redirect", &mut cursor).collect();
        for redirect in redirects {
            match redirect.kind() {
                "file_redirect" => self.more_words(redirect, command),
                "herestring_redirect" => command.stdin = self.here_string(redirect),
                "heredoc_redirect" => {
                    command.stdin = self.here_document(redirect);
                    let mut cursor = redirect.walk();
                    let arguments: Vec<_> =
                        redirect.children_by_field_name("argument", &mut cursor).collect();
                    for word in arguments {
                        let (is_next_line, source) = on_line(self.source(word));
                        let found = words(source, &self.state);
                        // The parser takes a backslash at the start of the document for an argument.
                        if is_next_line {
                            self.script.unknown.push("a line begins with a backslash".to_owned());
                        }
                        command.argv.extend(found);
                    }
                }
                _ => {}
            }
        }
    }

    fn here_document(&self, redirect: Node<'_>) -> Stdin {
        let mut cursor = redirect.walk();
        let (mut start, mut body) = ("", "");
        for child in redirect.children(&mut cursor) {
            match child.kind() {
                "heredoc_start" => start = self.source(child),
                "heredoc_body" => body = self.source(child),
                _ => {}
            }
        }
        let is_literal = start.contains(['\'', '"', '\\']);
        Stdin::Text(if is_literal { Word::exact(body) } else { document(body, &self.state) })
    }

    /// What a command changes for those that follow.
    fn effects(&mut self, command: &Command) {
        let Some(program) = command.program() else { return };
        match program.as_str() {
            "cd" | "pushd" => {
                let target =
                    command.arguments().iter().find(|word| !word.text.starts_with('-') || word.text == "-");
                self.state.cwd = match target {
                    None if program == "cd" => self.state.get("HOME").map(str::to_owned),
                    Some(word) if word.text != "-" && !word.is_glob => {
                        let base = self.state.cwd.as_deref();
                        word.value().and_then(|path| crate::path::join(base, path))
                    }
                    _ => None,
                };
            }
            "popd" => self.state.cwd = None,
            "read" | "mapfile" | "readarray" | "getopts" | "printf" | "let" => {
                let names: Vec<_> = command.arguments().iter().filter_map(Word::value).collect();
                for name in names {
                    self.state.set(name.as_ref(), None);
                }
            }
            "eval" | "source" | "." => self.state.forget(),
            _ => {}
        }
    }
}

/// What a command prints, as far as its text says.
fn output(command: &Command) -> Stdin {
    let program = command.program().unwrap_or_else(|| "?".to_owned());
    let arguments = command.arguments();
    match (program.as_str(), &command.stdin) {
        ("echo", _) => {
            let words = arguments
                .iter()
                .skip_while(|word| matches!(word.text.as_str(), "-n" | "-e" | "-E" | "-ne" | "-en"));
            let words: Vec<&str> = words.map(|word| word.text.as_str()).collect();
            let is_exact = arguments.iter().all(|word| word.is_exact && !word.text.contains('\\'));
            Stdin::Text(Word { text: words.join(" "), is_exact, is_glob: false })
        }
        ("printf", _) => match arguments {
            [format] if format.is_exact && !format.text.contains(['%', '\\']) => Stdin::Text(format.clone()),
            _ => Stdin::Pipe(program),
        },
        ("cat", Stdin::Text(text)) if arguments.is_empty() => Stdin::Text(text.clone()),
        _ => Stdin::Pipe(program),
    }
}
