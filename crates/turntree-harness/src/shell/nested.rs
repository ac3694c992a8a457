//! Commands inside of commands: `sh -c`, `eval`, here-documents and pipes into a shell, aliases of git.

use std::collections::VecDeque;

use super::facts::{Command, HIDDEN, Script, Stdin, Via, Word};
use super::git_aliases::{GitAlias, GitAliases};
use super::scope::Surroundings;
use super::{carriers, tree, wrappers};

/// The deepest nesting of shells that is followed.
const MAX_DEPTH: usize = 8;

/// The most commands of one text.
const MAX_COMMANDS: usize = 5_000;

/// The most aliases of a text that are followed.
const MAX_ALIASES: usize = 100;

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish"];

/// A text that is still to be read.
struct Task {
    text: String,
    via: Via,
    cwd: Option<String>,
    depth: usize,
    wrappers: Vec<String>,
}

/// What one command turns out to be.
enum Step {
    /// A command that runs no other.
    Done,
    /// It runs this command.
    Command(Command),
    /// A shell reads this text.
    Script(Word, Via),
    /// A shell reads something that the text does not determine.
    Unknown(String),
}

/// Finds everything that a shell would run for a text.
///
/// Never fails: what is not understood is listed in [`Script::unknown`].
pub fn analyze(text: &str, surroundings: &Surroundings) -> Script {
    let cwd = surroundings.cwd.clone();
    let first = Task { text: text.to_owned(), via: Via::Direct, cwd, depth: 0, wrappers: Vec::new() };
    let mut tasks = VecDeque::from([first]);
    let mut script = Script::default();
    let mut aliases = Vec::new();
    let mut git_aliases = GitAliases::new(surroundings.git_aliases);
    while let Some(task) = tasks.pop_front() {
        let place = Surroundings { cwd: task.cwd.clone(), ..surroundings.clone() };
        let mut read = tree::read(&task.text, &place);
        script.redirects.append(&mut read.redirects);
        script.unknown.append(&mut read.unknown);
        for mut command in read.commands {
            command.via = command.via.max(task.via);
            command.wrappers.splice(..0, task.wrappers.iter().cloned());
            // The surrounding script may have set the variable.
            if task.depth > 0 && command.argv.first().is_some_and(Word::is_hidden) {
                script.unknown.push(HIDDEN.to_owned());
            }
            tasks.extend(aliased(&command, &mut aliases, task.depth));
            resolve(command, task.depth, &mut git_aliases, &mut script, &mut tasks);
        }
        if script.commands.len() > MAX_COMMANDS {
            script.unknown.push("the command runs too many others".to_owned());
            break;
        }
    }
    script
}

/// What a shell runs for a name that the script has given to a command before. Bash does not, unless it is interactive;
/// other shells do.
fn aliased(command: &Command, aliases: &mut Vec<(String, String)>, depth: usize) -> Option<Task> {
    let name = command.argv.first()?.value()?;
    if name == "alias" {
        let given = command.arguments().iter().take(MAX_ALIASES.saturating_sub(aliases.len()));
        let given = given.filter_map(|word| word.text.split_once('='));
        aliases.extend(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
        return None;
    }
    let (_, value) = aliases.iter().rev().find(|(own, _)| own == name).filter(|_| depth < MAX_DEPTH)?;
    let text = format!("{value} {}", joined(command.arguments()).text);
    let (cwd, wrappers) = (command.cwd.clone(), command.wrappers.clone());
    Some(Task { text, via: Via::Alias, cwd, depth: depth + 1, wrappers })
}

/// Follows one command to those that it runs.
fn resolve(
    command: Command,
    depth: usize,
    git_aliases: &mut GitAliases,
    script: &mut Script,
    tasks: &mut VecDeque<Task>,
) {
    let mut open = vec![command];
    let mut rounds = 0;
    while let Some(command) = open.pop() {
        rounds += 1;
        if rounds > 200 {
            script.unknown.push("the command has too many wrappers".to_owned());
            return;
        }
        if command.program().as_deref() == Some("find") {
            let found = wrappers::find_commands(&command);
            if found.iter().any(|inner| inner.argv.first().is_some_and(Word::is_hidden)) {
                script.unknown.push(HIDDEN.to_owned());
            }
            open.extend(found);
        }
        let step = step(&command, git_aliases);
        // The command in a wrapper has its variables too.
        if !matches!(step, Step::Command(_)) {
            carry(&command, depth, script, tasks);
        }
        match step {
            Step::Command(inner) => {
                if inner.argv.first().is_some_and(Word::is_hidden) {
                    script.unknown.push(HIDDEN.to_owned());
                }
                open.push(inner);
            }
            Step::Script(word, via) if depth < MAX_DEPTH => {
                if !word.is_exact {
                    script.unknown.push(format!("a part of what \"{}\" runs is not known", command.show()));
                }
                let (cwd, wrappers) = (command.cwd.clone(), command.wrappers.clone());
                let via = command.via.max(via);
                tasks.push_back(Task { text: word.text, via, cwd, depth: depth + 1, wrappers });
            }
            Step::Script(..) => script.unknown.push("shells are nested too deeply".to_owned()),
            Step::Unknown(reason) => script.unknown.push(reason),
            Step::Done => {}
        }
        script.commands.push(command);
    }
}

/// Follows the commands that stand in arguments and variables.
fn carry(command: &Command, depth: usize, script: &mut Script, tasks: &mut VecDeque<Task>) {
    for carried in carriers::carried(command) {
        match carried {
            carriers::Carried::Script(word) if depth < MAX_DEPTH => {
                if !word.is_exact {
                    script.unknown.push(format!("a part of what \"{}\" runs is not known", command.show()));
                }
                let (cwd, wrappers) = (command.cwd.clone(), command.wrappers.clone());
                let via = command.via.max(carriers::VIA);
                tasks.push_back(Task { text: word.text, via, cwd, depth: depth + 1, wrappers });
            }
            carriers::Carried::Script(_) => script.unknown.push("shells are nested too deeply".to_owned()),
            carriers::Carried::Unknown(reason) => {
                script.unknown.push(format!("\"{}\": {reason}", command.show()))
            }
        }
    }
}

fn step(command: &Command, git_aliases: &mut GitAliases) -> Step {
    let Some(program) = command.program() else { return Step::Done };
    let arguments = command.arguments();
    match program.as_str() {
        // It runs later, in the same shell.
        "trap" => match arguments.iter().find(|word| word.text != "--") {
            Some(word) if !word.text.starts_with('-') && arguments.len() > 1 => {
                Step::Script(word.clone(), Via::Eval)
            }
            _ => Step::Done,
        },
        "eval" => Step::Script(joined(arguments), Via::Eval),
        "source" | "." => match arguments.first() {
            Some(word) if !word.is_exact || word.text == "/dev/stdin" => {
                Step::Unknown("a shell reads commands that are not known".to_owned())
            }
            _ => Step::Done,
        },
        "ssh" => match wrappers::unwrap(command) {
            Some(inner) => Step::Script(joined(&inner.argv), Via::Ssh),
            None => Step::Done,
        },
        "env" if has_split_string(arguments) => Step::Script(split_string(arguments), Via::Wrapper),
        "watch" => {
            let rest: Vec<Word> = arguments
                .iter()
                .skip_while(|word| word.text.starts_with('-') || word.text.parse::<f64>().is_ok())
                .cloned()
                .collect();
            Step::Script(joined(&rest), Via::Wrapper)
        }
        "su" | "script" | "runuser" | "flock" | "sg"
            if option_value(arguments, "-c", "--command").is_some() =>
        {
            Step::Script(option_value(arguments, "-c", "--command").unwrap_or_default(), Via::Shell)
        }
        "parallel" if arguments.iter().any(|word| word.text == ":::") => {
            Step::Unknown("parallel runs commands that are not known".to_owned())
        }
        "git" => match git_aliases.follow(command) {
            GitAlias::None => Step::Done,
            GitAlias::Runs(text) => Step::Script(text, Via::Alias),
            GitAlias::Unknown => Step::Unknown("git may have aliases in too many folders".to_owned()),
        },
        name if SHELLS.contains(&name) => shell(command, arguments),
        _ => wrappers::unwrap(command).map_or(Step::Done, Step::Command),
    }
}

pub(super) fn joined(words: &[Word]) -> Word {
    let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    Word { text: text.join(" "), is_exact: words.iter().all(|word| word.is_exact), is_glob: false }
}

fn option_value(arguments: &[Word], short: &str, long: &str) -> Option<Word> {
    let at = arguments.iter().position(|word| word.text == short || word.text == long)?;
    arguments.get(at + 1).cloned()
}

fn has_split_string(arguments: &[Word]) -> bool {
    arguments.iter().take_while(|word| word.text.starts_with('-')).any(|word| {
        word.text.starts_with("--split-string") || (!word.text.starts_with("--") && word.text.contains('S'))
    })
}

/// `env -S "command"`, `env -S"command"`, `env --split-string=command`.
fn split_string(arguments: &[Word]) -> Word {
    let mut words = arguments.iter().skip_while(|word| {
        !word.text.starts_with("--split-string") && (word.text.starts_with("--") || !word.text.contains('S'))
    });
    let Some(option) = words.next() else { return Word::unknown() };
    let text = match option.text.strip_prefix("--split-string") {
        Some(rest) => rest.strip_prefix('=').unwrap_or_default().to_owned(),
        None => option.text.split_once('S').map(|(_, rest)| rest.to_owned()).unwrap_or_default(),
    };
    let mut all = vec![Word { text, ..option.clone() }];
    all.extend(words.cloned());
    joined(&all)
}

/// `bash -c text`, `bash file`, `bash < text`.
fn shell(command: &Command, arguments: &[Word]) -> Step {
    let mut words = arguments.iter();
    let mut has_command = false;
    let mut reads_stdin = false;
    let first = loop {
        let Some(word) = words.next() else { break None };
        let text = word.text.as_str();
        match text {
            "--" | "-" => break words.next(),
            "--rcfile" | "--init-file" | "-o" | "+o" | "-O" | "+O" => {
                words.next();
            }
            _ if text.starts_with("--") => {}
            _ if text.starts_with(['-', '+']) => {
                has_command |= text.starts_with('-') && text.contains('c');
                reads_stdin |= text.starts_with('-') && text.contains('s');
                if text.ends_with('o') {
                    words.next();
                }
            }
            _ => break Some(word),
        }
    };
    match first {
        Some(script) if has_command => Step::Script(script.clone(), Via::Shell),
        Some(file) if !reads_stdin && file.text != "/dev/stdin" => {
            if file.is_exact {
                Step::Done
            } else {
                Step::Unknown(format!("\"{}\" runs a script that is not known", command.show()))
            }
        }
        _ => match &command.stdin {
            Stdin::Text(text) => Step::Script(text.clone(), Via::Stdin),
            Stdin::Pipe(program) => {
                Step::Unknown(format!("a shell runs the output of \"{program}\", which is not known"))
            }
            Stdin::Inherited => Step::Done,
        },
    }
}
