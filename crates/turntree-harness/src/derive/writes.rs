//! Files that a shell command writes or removes.

use crate::shell::{Command, Script, Word};

/// How a file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is created or its content changes.
    Write,
    /// It is removed or moved away.
    Remove,
    /// It is removed with all that is in it.
    RemoveTree,
}

/// A file that a command changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The word that names it.
    pub word: Word,
    /// Its absolute path; `None` if it is not known.
    pub path: Option<String>,
    /// How it is changed.
    pub change: Change,
}

/// All files that a script changes, as far as its words say.
pub fn writes(script: &Script) -> Vec<Write> {
    let mut found = Vec::new();
    for redirect in script.redirects.iter().filter(|redirect| redirect.writes()) {
        found.push(write(&redirect.target, redirect.cwd.as_deref(), Change::Write));
    }
    for command in &script.commands {
        // What another machine writes is not here.
        if !command.wrappers.iter().any(|wrapper| wrapper == "ssh") {
            of_command(command, &mut found);
        }
    }
    found
}

fn write(word: &Word, cwd: Option<&str>, change: Change) -> Write {
    let path = word.value().and_then(|path| crate::path::join(cwd, path));
    Write { word: word.clone(), path, change }
}

fn of_command(command: &Command, found: &mut Vec<Write>) {
    let Some(program) = command.program() else { return };
    let cwd = command.cwd.as_deref();
    let arguments = command.arguments();
    let operands = || operands(arguments);
    let mut add =
        |words: Vec<&Word>, change| found.extend(words.into_iter().map(|word| write(word, cwd, change)));
    match program.as_str() {
        "rm" | "shred" | "trash" | "srm" => {
            let is_tree = has_flag(arguments, "rR", &["--recursive"]);
            add(operands(), if is_tree { Change::RemoveTree } else { Change::Remove });
        }
        "rmdir" | "unlink" => add(operands(), Change::Remove),
        "touch" | "mkdir" | "mkfifo" | "tee" | "truncate" | "sponge" | "sqlite3" | "ed" | "ex" => {
            add(operands(), Change::Write)
        }
        "cp" | "install" | "ln" | "rsync" => add(destination(arguments), Change::Write),
        "mv" | "rename" => {
            add(destination(arguments), Change::Write);
            let mut sources = operands();
            sources.pop();
            add(sources, Change::Remove);
        }
        "dd" => add(Vec::new(), Change::Write),
        "sed" | "perl" | "gsed" | "ruby" if has_flag(arguments, "i", &["--in-place"]) => {
            let has_script_option = has_flag(arguments, "ef", &["--expression", "--file"]);
            add(operands().into_iter().skip(usize::from(!has_script_option)).collect(), Change::Write);
        }
        "chmod" | "chown" | "chgrp" | "chattr" => {
            add(operands().into_iter().skip(1).collect(), Change::Write)
        }
        "curl" => add(values(arguments, &["-o", "--output"]), Change::Write),
        "wget" => {
            add(values(arguments, &["-O", "--output-document", "-P", "--directory-prefix"]), Change::Write)
        }
        "tar" | "bsdtar" => {
            let extracts = arguments.first().is_some_and(|word| word.text.contains('x'))
                || has_flag(arguments, "x", &["--extract", "--get"]);
            if extracts {
                add(values(arguments, &["-C", "--directory"]), Change::Write);
            }
        }
        "unzip" => add(values(arguments, &["-d"]), Change::Write),
        "patch" => add(values(arguments, &["-o"]), Change::Write),
        _ => {}
    }
    if program == "dd" {
        let output = arguments.iter().filter_map(|word| {
            let text = word.text.strip_prefix("of=")?.to_owned();
            Some(Word { text, ..word.clone() })
        });
        found.extend(output.map(|word| write(&word, cwd, Change::Write)));
    }
    if program == "find" {
        found.extend(removed_by_find(arguments).into_iter().map(|word| write(word, cwd, Change::RemoveTree)));
    }
}

/// The folders that a call of `find` empties, by `-delete` or by `rm`.
fn removed_by_find(arguments: &[Word]) -> Vec<&Word> {
    let is_delete = arguments.iter().any(|word| word.text == "-delete");
    let removes = arguments.windows(2).any(|pair| {
        matches!(pair, [option, program]
            if option.text.starts_with("-exec") && program.text.rsplit('/').next() == Some("rm"))
    });
    if !is_delete && !removes {
        return Vec::new();
    }
    arguments.iter().take_while(|word| !word.text.starts_with(['-', '(', '!'])).collect()
}

/// Words that are not options.
fn operands(arguments: &[Word]) -> Vec<&Word> {
    let mut is_after = false;
    let mut operands = Vec::new();
    for word in arguments {
        match word.text.as_str() {
            "--" if !is_after => is_after = true,
            text if !is_after && text.starts_with('-') && text.len() > 1 => {}
            _ => operands.push(word),
        }
    }
    operands
}

/// The last word, or the value of `-t`.
fn destination(arguments: &[Word]) -> Vec<&Word> {
    let named = values(arguments, &["-t", "--target-directory"]);
    if named.is_empty() { operands(arguments).pop().into_iter().collect() } else { named }
}

/// The values of options: `-o value`, `-ovalue`, `--output value`. The value of `--output=value` is the whole word.
fn values<'a>(arguments: &'a [Word], options: &[&str]) -> Vec<&'a Word> {
    let mut found = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if options.contains(&word.text.as_str()) {
            found.extend(words.next());
        }
    }
    found
}

/// Whether an option is given: a letter among short options, or the beginning of a long one.
pub fn has_flag(arguments: &[Word], letters: &str, long: &[&str]) -> bool {
    arguments.iter().map(|word| word.text.as_str()).take_while(|text| *text != "--").any(|text| {
        if text.starts_with("--") {
            let name = text.split('=').next().unwrap_or(text);
            return name.len() >= 5 && long.iter().any(|option| option.starts_with(name));
        }
        text.starts_with('-') && text.chars().any(|char| letters.contains(char))
    })
}
