//! Files that a shell command writes or removes.

use crate::shell::{Command, Script, Stdin, Word};

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
    let (mut found, mut links) = (Vec::new(), Vec::new());
    for redirect in script.redirects.iter().filter(|redirect| redirect.writes()) {
        found.push(write(&redirect.target, redirect.cwd.as_deref(), Change::Write));
    }
    for command in &script.commands {
        // What another machine writes is not here.
        if !command.wrappers.iter().any(|wrapper| wrapper == "ssh") {
            let is_link = command.program().as_deref() == Some("ln");
            of_command(command, if is_link { &mut links } else { &mut found });
        }
    }
    through_links(script, &mut found);
    found.append(&mut links);
    found
}

/// What is written through a link that the script makes is written where the link leads.
fn through_links(script: &Script, found: &mut Vec<Write>) {
    let links: Vec<(String, String)> = script.commands.iter().filter_map(link).take(1_000).collect();
    let mut more = Vec::new();
    for write in found.iter() {
        let Some(path) = write.path.as_deref() else { continue };
        for (name, target) in &links {
            // Removing a link leaves what it leads to.
            let rest = crate::path::below(name, path);
            if let Some(rest) = rest.filter(|rest| write.change == Change::Write || !rest.is_empty()) {
                let path = if rest.is_empty() { target.clone() } else { format!("{target}/{rest}") };
                more.push(Write { path: Some(path), ..write.clone() });
            }
        }
    }
    found.append(&mut more);
}

/// The name and the target of `ln TARGET NAME`.
fn link(command: &Command) -> Option<(String, String)> {
    let operands = operands(command.arguments());
    let ([target, name], Some("ln")) = (operands.as_slice(), command.program().as_deref()) else {
        return None;
    };
    let name = crate::path::join(command.cwd.as_deref(), name.value()?)?;
    // A symbolic link starts where it is, a hard one in the working directory.
    let folder = name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let is_symbolic = has_flag(command.arguments(), "s", &["--symbolic"]);
    let base = if is_symbolic { folder } else { command.cwd.clone() };
    Some((name, crate::path::join(base.as_deref(), target.value()?)?))
}

fn write(word: &Word, cwd: Option<&str>, change: Change) -> Write {
    let path = word.value().and_then(|path| crate::path::join(cwd, path));
    Write { word: word.clone(), path, change }
}

fn of_command(command: &Command, found: &mut Vec<Write>) {
    let Some(program) = command.program() else { return };
    let cwd = command.cwd.as_deref();
    let arguments = command.arguments();
    let operands = || operands(arguments).into_iter().cloned().collect::<Vec<Word>>();
    let mut add = |words: Vec<Word>, change| found.extend(words.iter().map(|word| write(word, cwd, change)));
    match program.as_str() {
        "rm" | "shred" | "trash" | "srm" => {
            let is_tree = has_flag(arguments, "rR", &["--recursive"]);
            add(operands(), if is_tree { Change::RemoveTree } else { Change::Remove });
        }
        "rmdir" | "unlink" => add(operands(), Change::Remove),
        "touch" | "mkdir" | "mkfifo" | "tee" | "truncate" | "sponge" | "sqlite3" | "ed" | "ex" => {
            add(operands(), Change::Write)
        }
        "cp" | "install" | "ln" => add(destination(arguments), Change::Write),
        "rsync" => add(operands().pop().into_iter().collect(), Change::Write),
        "mv" | "rename" => {
            add(destination(arguments), Change::Write);
            let mut sources = operands();
            sources.pop();
            add(sources, Change::Remove);
        }
        "sed" | "perl" | "gsed" | "ruby" if has_flag(arguments, "i", &["--in-place"]) => {
            let has_script_option = has_flag(arguments, "ef", &["--expression", "--file"]);
            add(operands().into_iter().skip(usize::from(!has_script_option)).collect(), Change::Write);
        }
        "chmod" | "chown" | "chgrp" | "chattr" => {
            add(operands().into_iter().skip(1).collect(), Change::Write)
        }
        "curl" => add(values(arguments, &["-o", "--output"], DOWNLOADS), Change::Write),
        "wget" => {
            let options = ["-O", "--output-document", "-P", "--directory-prefix"];
            add(values(arguments, &options, DOWNLOADS), Change::Write)
        }
        "tar" | "bsdtar" => {
            let extracts = arguments.first().is_some_and(|word| word.text.contains('x'))
                || has_flag(arguments, "x", &["--extract", "--get"]);
            if extracts {
                add(values(arguments, &["-C", "--directory"], "xzjJvfp"), Change::Write);
            }
        }
        "unzip" => add(values(arguments, &["-d"], "qonjaLC"), Change::Write),
        "patch" => add(values(arguments, &["-o", "--output"], "sfNRu"), Change::Write),
        _ => {}
    }
    if program == "dd" {
        let output = arguments.iter().filter_map(|word| {
            let text = word.text.strip_prefix("of=")?.to_owned();
            Some(Word { text, ..word.clone() })
        });
        found.extend(output.map(|word| write(&word, cwd, Change::Write)));
    }
    if matches!(program.as_str(), "apply_patch" | "applypatch") {
        found.extend(patched_by(command));
    }
    if program == "find" {
        found.extend(removed_by_find(arguments).into_iter().map(|word| write(word, cwd, Change::RemoveTree)));
    }
}

/// Paths in a patch of coding agents (`*** Begin Patch`) and how it changes them.
pub fn patched(patch: &str) -> impl Iterator<Item = (&str, Change)> {
    const MARKS: &[(&str, Change)] = &[
        ("*** Update File: ", Change::Write),
        ("*** Add File: ", Change::Write),
        ("*** Move to: ", Change::Write),
        ("*** Delete File: ", Change::Remove),
    ];
    patch.lines().filter_map(|line| {
        MARKS.iter().find_map(|(mark, change)| Some((line.trim().strip_prefix(mark)?.trim(), *change)))
    })
}

/// What `apply_patch` changes: coding agents offer it as a command, with the patch as argument or on its input.
pub(crate) fn patched_by(command: &Command) -> Vec<Write> {
    let mut patches: Vec<&Word> = command.arguments().iter().collect();
    if let Stdin::Text(word) = &command.stdin {
        patches.push(word);
    }
    let known = patches.iter().filter(|word| word.is_exact).flat_map(|word| patched(&word.text));
    let mut found: Vec<Write> =
        known.map(|(path, change)| write(&Word::exact(path), command.cwd.as_deref(), change)).collect();
    if found.is_empty() {
        found.push(write(&Word::unknown(), None, Change::Write));
    }
    found
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
fn destination(arguments: &[Word]) -> Vec<Word> {
    let named = values(arguments, &["-t", "--target-directory"], "abdfHilLnpPrRsTuvxZCD");
    if named.is_empty() { operands(arguments).pop().cloned().into_iter().collect() } else { named }
}

/// Letters of options of downloaders without a value.
const DOWNLOADS: &str = "sSLfkgiIlNqvjJnrc#";

/// The values of options: `-o value`, `-ovalue`, `-sSo value`, `--output value`, `--output=value`. `flags` are the letters
/// that may stand before one with a value. `-` is no file.
fn values(arguments: &[Word], options: &[&str], flags: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        let rest = options.iter().find_map(|option| match option.strip_prefix("--") {
            Some(_) if text == *option => Some(""),
            Some(_) => text.strip_prefix(option)?.strip_prefix('='),
            None => {
                let cluster = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))?;
                let (before, rest) = cluster.split_once(option.trim_start_matches('-'))?;
                before.chars().all(|char| flags.contains(char)).then_some(rest)
            }
        });
        match rest {
            Some("") => found.extend(words.next().cloned()),
            Some(rest) => found.push(Word { text: rest.to_owned(), ..word.clone() }),
            None => {}
        }
    }
    found.retain(|word| word.text != "-");
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
