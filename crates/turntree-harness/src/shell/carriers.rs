//! Commands in the arguments and variables of another: settings of git, options of `tar`, scripts of editors.

use super::facts::{Command, Stdin, Via, Word};

/// What a command carries.
pub(super) enum Carried {
    /// A text that a shell runs.
    Script(Word),
    /// Something that runs and is not known.
    Unknown(&'static str),
}

/// Variables whose value is a command.
const COMMANDS: &[&str] = &[
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "PROMPT_COMMAND",
    "RSYNC_RSH",
];

/// Variables that make programs load code.
const LOADERS: &[&str] =
    &["LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "PERL5OPT", "RUBYOPT"];

/// Settings of git whose value is a command: whole names, in lower case.
const SETTINGS: &[&str] = &[
    "core.sshcommand",
    "core.editor",
    "core.pager",
    "core.askpass",
    "core.gitproxy",
    "core.fsmonitor",
    "core.alternaterefscommand",
    "sequence.editor",
    "diff.external",
    "interactive.difffilter",
    "uploadpack.packobjectshook",
];

/// Beginnings and ends of more of them.
const FAMILIES: &[(&str, &str)] = &[
    ("pager.", ""),
    ("credential.", "helper"),
    ("gpg.", "program"),
    ("diff.", ".textconv"),
    ("diff.", ".command"),
    ("difftool.", ".cmd"),
    ("mergetool.", ".cmd"),
    ("merge.", ".driver"),
    ("filter.", ".clean"),
    ("filter.", ".smudge"),
    ("filter.", ".process"),
    ("remote.", ".uploadpack"),
    ("remote.", ".receivepack"),
    ("submodule.", ".update"),
    ("trailer.", ".command"),
    ("trailer.", ".cmd"),
];

/// Options whose value is a command, by program and, for git, its verb.
const OPTIONS: &[(&str, &str, &[&str])] = &[
    ("git", "rebase", &["-x", "--exec"]),
    ("git", "difftool", &["-x", "--extcmd"]),
    ("git", "clone", &["-u", "--upload-pack"]),
    ("git", "fetch", &["--upload-pack"]),
    ("git", "pull", &["--upload-pack"]),
    ("git", "ls-remote", &["--upload-pack", "--exec"]),
    ("git", "push", &["--receive-pack", "--exec"]),
    ("git", "archive", &["--exec"]),
    ("git", "grep", &["-O", "--open-files-in-pager"]),
    ("tar", "", &["--to-command", "-I", "--use-compress-program", "--rsh-command", "-F", "--info-script"]),
    ("rsync", "", &["-e", "--rsh"]),
];

/// Everything that a command carries.
pub(super) fn carried(command: &Command) -> Vec<Carried> {
    let mut found = Vec::new();
    for (name, value) in &command.environment {
        variable(name, value, &mut found);
    }
    let Some(program) = command.program() else { return found };
    let arguments = command.arguments();
    match program.as_str() {
        "git" => git(arguments, &mut found),
        "ssh" | "scp" | "sftp" => ssh_options(arguments, &mut found),
        "at" | "batch" => found.push(match &command.stdin {
            Stdin::Text(text) => Carried::Script(text.clone()),
            _ => Carried::Unknown("a job for later is not known"),
        }),
        "make" | "gmake" if reads_rules(arguments) => {
            found.push(Carried::Unknown("make runs rules that are not in a file"));
        }
        "vim" | "nvim" | "vi" | "ex" | "emacs" if edits_by_script(arguments) => {
            found.push(Carried::Unknown("an editor runs commands that may start programs"));
        }
        "sed" | "gsed" if arguments.iter().any(|word| executes(&word.text)) => {
            found.push(Carried::Unknown("a script of sed may start programs"));
        }
        "nc" | "ncat" | "netcat" if has_any(arguments, &["-e", "-c", "--exec", "--sh-exec"]) => {
            found.push(Carried::Unknown("it gives a program to whoever connects"));
        }
        "socat" if arguments.iter().any(|word| carries_program(&word.text)) => {
            found.push(Carried::Unknown("it gives a program to whoever connects"));
        }
        _ => {}
    }
    if program == "tar" {
        let actions = arguments.iter().filter_map(|word| after(word, "--checkpoint-action=exec="));
        found.extend(actions.map(Carried::Script));
    }
    values(&program, "", arguments, &mut found);
    found
}

fn variable(name: &str, value: &Word, found: &mut Vec<Carried>) {
    if COMMANDS.contains(&name) && !value.text.is_empty() {
        found.push(Carried::Script(value.clone()));
    }
    let loads = name == "NODE_OPTIONS"
        && ["--require", "--import", "-r "].iter().any(|option| value.text.contains(option));
    if loads || LOADERS.contains(&name) {
        found.push(Carried::Unknown("a variable makes programs load code that is not known"));
    }
}

/// The rest of a word after its beginning.
fn after(word: &Word, beginning: &str) -> Option<Word> {
    let text = word.text.strip_prefix(beginning)?.to_owned();
    Some(Word { text, ..word.clone() })
}

fn has_any(arguments: &[Word], options: &[&str]) -> bool {
    arguments.iter().any(|word| options.contains(&word.text.as_str()))
}

fn values(program: &str, verb: &str, arguments: &[Word], found: &mut Vec<Carried>) {
    let options = OPTIONS.iter().filter(|(own, of, _)| *own == program && *of == verb);
    for option in options.flat_map(|(_, _, options)| options.iter()) {
        for (at, word) in arguments.iter().enumerate() {
            let joined = if option.starts_with("--") { format!("{option}=") } else { (*option).to_owned() };
            let value =
                if word.text == *option { arguments.get(at + 1).cloned() } else { after(word, &joined) };
            found.extend(value.map(Carried::Script));
        }
    }
}

/// Whether a setting of git is a command.
fn is_command(name: &str) -> bool {
    let name = name.to_lowercase();
    SETTINGS.contains(&name.as_str())
        || FAMILIES
            .iter()
            .any(|(start, end)| name.strip_prefix(*start).is_some_and(|rest| rest.ends_with(*end)))
}

fn setting(name: &str, value: &Word, found: &mut Vec<Carried>) {
    let text = value.text.strip_prefix('!').unwrap_or(&value.text).to_owned();
    if is_command(name) && !text.is_empty() {
        found.push(Carried::Script(Word { text, ..value.clone() }));
    }
}

fn git(arguments: &[Word], found: &mut Vec<Carried>) {
    let mut at = 0;
    while let Some(word) = arguments.get(at).filter(|word| word.text.starts_with('-')) {
        let (text, next) = (word.text.as_str(), arguments.get(at + 1));
        let joined = || after(word, "-c").or_else(|| after(word, "--config-env="));
        let given = if matches!(text, "-c" | "--config-env") { next.cloned() } else { joined() };
        if let Some((given, (name, value))) =
            given.as_ref().and_then(|given| Some((given, given.text.split_once('=')?)))
        {
            let is_variable = text.starts_with("--config-env");
            let value =
                if is_variable { Word::unknown() } else { Word { text: value.to_owned(), ..given.clone() } };
            setting(name, &value, found);
        }
        let takes = ["-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path"];
        at += 1 + usize::from(takes.contains(&text));
    }
    let Some(verb) = arguments.get(at).and_then(Word::value).map(str::to_lowercase) else { return };
    let rest = arguments.get(at + 1..).unwrap_or_default();
    values("git", &verb, rest, found);
    let words: Vec<&Word> = rest.iter().filter(|word| !word.text.starts_with('-')).collect();
    match verb.as_str() {
        "config" => {
            for (name, value) in words.iter().zip(words.iter().skip(1)) {
                setting(&name.text, value, found);
            }
        }
        "bisect" if words.first().is_some_and(|word| word.text == "run") => {
            found.push(Carried::Script(joined(rest.get(1..).unwrap_or_default())));
        }
        "submodule" if words.first().is_some_and(|word| word.text == "foreach") => {
            let inner = rest.iter().skip_while(|word| word.text != "foreach").skip(1);
            let inner: Vec<Word> = inner.skip_while(|word| word.text.starts_with('-')).cloned().collect();
            found.push(Carried::Script(joined(&inner)));
        }
        _ => {}
    }
    found.extend(rest.iter().filter_map(|word| after(word, "ext::")).map(Carried::Script));
}

fn joined(words: &[Word]) -> Word {
    let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    Word { text: text.join(" "), is_exact: words.iter().all(|word| word.is_exact), is_glob: false }
}

/// `-o ProxyCommand=command`.
fn ssh_options(arguments: &[Word], found: &mut Vec<Carried>) {
    for word in arguments {
        let option = word.text.strip_prefix("-o").unwrap_or(&word.text).trim_start();
        let lower = option.to_lowercase();
        for name in ["proxycommand", "localcommand", "knownhostscommand"] {
            let rest = lower.strip_prefix(name).filter(|rest| rest.starts_with(['=', ' ']));
            if let Some(value) = rest.and_then(|_| option.get(name.len() + 1..)) {
                let text = value.trim_start_matches(['=', ' ']).to_owned();
                found.push(Carried::Script(Word { text, ..word.clone() }));
            }
        }
    }
}

/// `make -f -`, `make --eval=…`.
fn reads_rules(arguments: &[Word]) -> bool {
    let is_input = |text: &str| matches!(text, "-" | "/dev/stdin" | "/dev/fd/0");
    let pairs = arguments.windows(2).any(|pair| {
        matches!(pair, [option, file] if matches!(option.text.as_str(), "-f" | "--file" | "--makefile") && is_input(&file.text))
    });
    let one = |text: &str| {
        text.starts_with("--eval")
            || ["-f", "--file=", "--makefile="]
                .iter()
                .any(|option| text.strip_prefix(*option).is_some_and(is_input))
    };
    pairs || arguments.iter().any(|word| one(&word.text))
}

/// `vim -c ':!command'`, `emacs --eval '(shell-command …)'`.
fn edits_by_script(arguments: &[Word]) -> bool {
    let runs = |text: &str| text.contains('!') || text.contains("system") || text.contains("shell-command");
    let given = ["-c", "--cmd", "--eval", "-eval", "-S", "-s"];
    let follows = arguments.windows(2).any(
        |pair| matches!(pair, [option, text] if given.contains(&option.text.as_str()) && runs(&text.text)),
    );
    follows || arguments.iter().any(|word| word.text.starts_with(['+', '-']) && runs(&word.text))
}

/// Whether a script of sed starts programs: the command `e`, or the flag `e` of `s`.
fn executes(script: &str) -> bool {
    script.split([';', '\n', '{']).any(|part| {
        let part = part.trim_start_matches(|char: char| char.is_ascii_digit() || "$,!~+ \t".contains(char));
        let part = match part.strip_prefix('/').and_then(|rest| rest.split_once('/')) {
            Some((_, rest)) => rest.trim_start_matches([' ', '!', 'I']),
            None => part,
        };
        let mut chars = part.chars();
        match (chars.next(), chars.next()) {
            (Some('e'), None | Some(' ' | '}')) => true,
            (Some('s'), Some(mark)) if mark.is_ascii_punctuation() => {
                let flags = part.rsplit(mark).next().unwrap_or_default();
                part.matches(mark).count() >= 3
                    && flags
                        .trim_end_matches(['}', ' '])
                        .chars()
                        .all(|char| "egpimIM0123456789".contains(char))
                    && flags.contains('e')
            }
            _ => false,
        }
    })
}

fn carries_program(text: &str) -> bool {
    let upper = text.to_uppercase();
    ["EXEC:", "SYSTEM:", "SHELL:"].iter().any(|kind| upper.contains(kind))
}

/// How a carried text comes to run.
pub(super) const VIA: Via = Via::Wrapper;
