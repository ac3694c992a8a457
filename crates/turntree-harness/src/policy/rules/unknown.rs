//! Rules about commands that the text does not determine.

use super::super::action::{Action, ActionKind};
use super::super::context::Context;
use super::super::decision::{Finding, Outcome};
use crate::derive::git::Git;
use crate::shell::{Command, Script, Stdin};

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
    Finding { rule: "shell.unknown", outcome: Outcome::Ask, reason, remedy: remedy.to_owned() }
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
        let is_xargs = command.wrappers.iter().any(|wrapper| wrapper == "xargs" || wrapper == "parallel");
        let removes = matches!(command.program().as_deref(), Some("rm" | "shred" | "kill"));
        if is_xargs && removes {
            found
                .push(ask(format!("\"{}\" gets names that are not known", command.show()), "name the files"));
        }
    }
    found
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
    let runs = |command: &Command| {
        let is_runner = command.program().is_some_and(|program| runners.contains(&program.as_str()));
        let is_piped = matches!(&command.stdin, Stdin::Pipe(_))
            && command.arguments().iter().all(|word| word.text.starts_with('-'));
        is_runner && (is_piped || command.arguments().iter().any(|word| !word.is_exact))
    };
    let has_download = script.commands.iter().any(is_download);
    let runner = script.commands.iter().find(|command| runs(command)).filter(|_| has_download);
    let finding = |command: &Command| Finding {
        rule: "shell.remote-script",
        outcome: Outcome::Ask,
        reason: format!("\"{}\" runs what another command downloads", command.show()),
        remedy: "download it to a file, read it, then run it".to_owned(),
    };
    runner.map(finding).into_iter().collect()
}
