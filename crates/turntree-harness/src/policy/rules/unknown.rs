//! Rules about commands that the text does not determine.

use std::collections::BTreeSet;

use super::super::action::{Action, ActionKind};
use super::super::context::Context;
use super::super::decision::{Finding, Outcome};
use crate::derive::git::Git;
use crate::derive::writes::patched_by;
use crate::shell::{Command, Script, Stdin, Word};

const DOWNLOADERS: &[&str] = &["curl", "wget", "http", "https", "xh", "nc", "ncat", "aria2c"];

/// Words that make a command dangerous whose program is not known.
const DANGEROUS: &[&str] = &[
    "push",
    "--force",
    "-f",
    "--hard",
    "-rf",
    "-fr",
    "-r",
    "reset",
    "clean",
    "apply",
    "destroy",
    "delete",
    "drop",
    "publish",
    "rm",
    "-delete",
    "--no-verify",
    "filter-branch",
    "--mirror",
];

/// Calls of interpreters' code that run programs or remove files.
const CALLS: &[&str] = &[
    "os.system",
    "subprocess",
    "os.popen",
    "os.exec",
    "pty.spawn",
    "shutil.rmtree",
    "os.remove",
    "os.unlink",
    "pathlib",
    "open(",
    "child_process",
    "execsync",
    "spawnsync",
    "exec(",
    "system(",
    "system ",
    "`",
    "%x",
    "qx",
    "rmsync",
    "unlinksync",
    "writefile",
    "file.write",
    "fileutils",
    "eval(",
    "__import__",
    "getattr(",
    "popen",
    "socket",
    "urllib",
    "requests.",
];

fn script(action: &Action) -> Option<&Script> {
    match &action.kind {
        ActionKind::Shell { script, .. } => Some(script),
        _ => None,
    }
}

fn ask(reason: String, remedy: &str) -> Finding {
    Finding { rule: "shell.unknown".into(), outcome: Outcome::Ask, reason, remedy: remedy.to_owned() }
}

pub(super) fn unknown(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let Some(script) = script(action) else { return Vec::new() };
    let plain = "write the command out, without encodings, variables and nested shells";
    let mut found: Vec<Finding> =
        script.unknown.iter().take(3).map(|reason| ask(reason.clone(), plain)).collect();
    for command in &script.commands {
        if command.program().is_none() && !command.argv.is_empty() {
            let is_dangerous =
                command.arguments().iter().any(|word| DANGEROUS.contains(&word.text.to_lowercase().as_str()));
            if is_dangerous {
                found.push(ask(format!("the program of \"{}\" is not known", command.show()), plain));
            }
        }
        if Git::of(command)
            .is_some_and(|git| git.verb.is_none() && !git.arguments.is_empty() || git_verb_unknown(command))
        {
            found.push(ask(format!("what \"{}\" does is not known", command.show()), plain));
        }
        if let Some(code) = interpreter_code(command) {
            let is_calling = CALLS.iter().any(|call| code.to_lowercase().contains(call));
            if is_calling {
                found.push(ask(
                    format!("\"{}\" runs code that may start programs or change files", command.show()),
                    "use a shell command that says what it does, or a script file in the repository",
                ));
            }
        }
        if renames_commands(command) {
            found.push(ask(format!("\"{}\" gives commands other names", command.show()), plain));
        }
        let is_patch = matches!(command.program().as_deref(), Some("apply_patch" | "applypatch"));
        if is_patch && !patches_known_files(command) {
            found.push(ask(
                format!("what \"{}\" changes is not known", command.show()),
                "give the patch in a here-document with a quoted mark",
            ));
        }
        let reads_file = script.commands.len() == 1
            && script.redirects.iter().any(|redirect| redirect.operator.starts_with('<'));
        if is_interactive(command) && !reads_file {
            found.push(ask(
                format!("\"{}\" waits for commands, and what is typed into it is not seen", command.show()),
                "run each command on its own",
            ));
        }
        let is_xargs = command.wrappers.iter().any(|wrapper| wrapper == "xargs" || wrapper == "parallel");
        let removes = matches!(command.program().as_deref(), Some("rm" | "shred" | "kill"));
        if is_xargs && removes {
            found
                .push(ask(format!("\"{}\" gets names that are not known", command.show()), "name the files"));
        }
    }
    found
}

/// `hash -p FILE NAME`, `enable -f FILE NAME`: what follows is not what it seems.
fn renames_commands(command: &Command) -> bool {
    let has = |option: &str| command.arguments().iter().any(|word| word.text == option);
    match command.program().as_deref() {
        Some("hash") => has("-p"),
        Some("enable") => has("-f"),
        _ => false,
    }
}

fn patches_known_files(command: &Command) -> bool {
    patched_by(command).iter().all(|write| write.path.is_some())
}

/// Whether a shell or an interpreter starts without anything to run: a harness can type into it later without a hook.
fn is_interactive(command: &Command) -> bool {
    let Some(program) = command.program().filter(|_| command.stdin == Stdin::Inherited) else { return false };
    let name = program.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    let is_shell = matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh" | "fish");
    let is_interpreter = matches!(name, "python" | "node" | "irb" | "deno" | "ipython");
    let words: Vec<&str> = command.arguments().iter().map(|word| word.text.as_str()).collect();
    let waits =
        words.iter().all(|word| matches!(*word, "-i" | "-l" | "--login" | "-il" | "-li" | "-s" | "-q"));
    (is_shell || is_interpreter) && waits
}

fn git_verb_unknown(command: &Command) -> bool {
    let mut words = command.arguments().iter().skip_while(|word| word.text.starts_with('-'));
    words.next().is_some_and(|word| !word.is_exact) && command.program().as_deref() == Some("git")
}

/// The code that an interpreter runs: `python -c`, `node -e`, a here-document.
fn interpreter_code(command: &Command) -> Option<String> {
    let program = command.program()?;
    let name = program.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    let option: &[&str] = match name {
        "python" | "pypy" => &["-c"],
        "node" | "deno" | "bun" => &["-e", "-p", "--eval", "--print", "eval", "-pe"],
        "perl" => &["-e", "-E", "-ne", "-pe", "-le", "-i"],
        "ruby" => &["-e", "-ne", "-pe"],
        "php" => &["-r"],
        "lua" | "osascript" | "Rscript" | "rscript" => &["-e"],
        "awk" | "gawk" | "mawk" => {
            let code = command
                .arguments()
                .iter()
                .map(|word| word.text.as_str())
                .find(|text| text.contains("system("));
            return code.map(str::to_owned);
        }
        _ => return None,
    };
    let arguments = command.arguments();
    for (at, word) in arguments.iter().enumerate() {
        if option.contains(&word.text.as_str()) {
            return arguments.get(at + 1).map(|word| word.text.clone());
        }
        let joined = word.text.strip_prefix("-c").filter(|_| name == "python");
        if let Some(code) = joined {
            return Some(code.to_owned());
        }
    }
    match &command.stdin {
        Stdin::Text(word) if arguments.iter().all(|word| word.text == "-") => Some(word.text.clone()),
        _ => None,
    }
}

pub(super) fn remote_script(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let Some(script) = script(action) else { return Vec::new() };
    let is_download =
        |command: &Command| command.program().is_some_and(|program| DOWNLOADERS.contains(&program.as_str()));
    let runners = [
        "sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "perl", "ruby", "php", "source",
        ".", "eval", "sudo",
    ];
    let files = downloaded(script);
    let runs_file = |command: &Command| {
        let is_runner = command.program().is_some_and(|program| runners.contains(&program.as_str()));
        let is_file = |word: &Word| files.contains(word.text.trim_start_matches("./"));
        let is_own = command.argv.first().is_some_and(|word| word.text.contains('/') && is_file(word));
        is_own || is_runner && command.arguments().iter().any(is_file)
    };
    let runs = |command: &Command| {
        let is_runner = command.program().is_some_and(|program| runners.contains(&program.as_str()));
        let is_piped = matches!(&command.stdin, Stdin::Pipe(_))
            && command.arguments().iter().all(|word| word.text.starts_with('-'));
        runs_file(command) || is_runner && (is_piped || command.arguments().iter().any(|word| !word.is_exact))
    };
    let has_download = script.commands.iter().any(is_download);
    let runner = script.commands.iter().find(|command| runs(command)).filter(|_| has_download);
    let finding = |command: &Command| Finding {
        rule: "shell.remote-script".into(),
        outcome: Outcome::Ask,
        reason: format!("\"{}\" runs what another command downloads", command.show()),
        remedy: "download it to a file, read it, then run it".to_owned(),
    };
    runner.map(finding).into_iter().collect()
}

/// The files that downloads of a script write, and all that its redirects write.
fn downloaded(script: &Script) -> BTreeSet<&str> {
    let is_download =
        |command: &&Command| command.program().is_some_and(|program| DOWNLOADERS.contains(&program.as_str()));
    let mut files: Vec<&str> = Vec::new();
    for command in script.commands.iter().filter(is_download) {
        let arguments = command.arguments();
        // `wget URL` and `curl -O URL`: the file has the name of the address.
        let takes_name = |word: &Word| matches!(word.text.as_str(), "-O" | "-LO" | "--remote-name");
        let is_named = command.program().as_deref() == Some("wget") || arguments.iter().any(takes_name);
        for (at, word) in arguments.iter().enumerate() {
            let text = word.text.as_str();
            let is_last = text.starts_with('-') && !text.starts_with("--") && text.ends_with(['o', 'O']);
            if is_last || matches!(text, "--output" | "--output-document") {
                files.extend(arguments.get(at + 1).map(|word| word.text.as_str()));
            }
            files.extend(
                ["--output=", "--output-document="].iter().find_map(|option| text.strip_prefix(*option)),
            );
            if is_named && text.contains("://") {
                files.extend(text.rsplit('/').next());
            }
        }
    }
    let written = script.redirects.iter().filter(|redirect| redirect.writes());
    files.extend(written.map(|redirect| redirect.target.text.as_str()));
    files.into_iter().map(|file| file.trim_start_matches("./")).filter(|file| !file.is_empty()).collect()
}
