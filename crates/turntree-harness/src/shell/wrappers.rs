//! Programs that run another command: `env`, `sudo`, `timeout`, `xargs`, `find -exec`, `ssh` and others.

use super::facts::{Command, Via, Word};

/// How a wrapper's arguments are read.
struct Wrapper {
    name: &'static str,
    /// Letters of options that take a value.
    letters: &'static str,
    /// Long options that take a value in the next word.
    long: &'static [&'static str],
    /// Words before the command.
    positional: usize,
    via: Via,
}

const fn wrapper(name: &'static str, letters: &'static str, positional: usize) -> Wrapper {
    Wrapper { name, letters, long: &[], positional, via: Via::Wrapper }
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper { long: &["--unset", "--chdir", "--argv0"], ..wrapper("env", "uCa", 0) },
    Wrapper {
        long: &["--user", "--group", "--chdir", "--prompt", "--host"],
        ..wrapper("sudo", "ugpChRTDrtU", 0)
    },
    wrapper("doas", "uC", 0),
    wrapper("nohup", "", 0),
    Wrapper { long: &["--adjustment"], ..wrapper("nice", "n", 0) },
    wrapper("ionice", "cnpPu", 0),
    Wrapper { long: &["--signal", "--kill-after"], ..wrapper("timeout", "sk", 1) },
    wrapper("gtimeout", "sk", 1),
    wrapper("time", "fo", 0),
    wrapper("stdbuf", "ioe", 0),
    wrapper("setsid", "", 0),
    Wrapper {
        long: &["--unit", "--property", "--uid", "--gid", "--setenv", "--working-directory", "--slice"],
        ..wrapper("systemd-run", "HMpuE", 0)
    },
    wrapper("command", "", 0),
    wrapper("builtin", "", 0),
    wrapper("exec", "a", 0),
    wrapper("noglob", "", 0),
    wrapper("nocorrect", "", 0),
    wrapper("coproc", "", 0),
    wrapper("then", "", 0),
    wrapper("do", "", 0),
    wrapper("chrt", "TPD", 1),
    wrapper("taskset", "", 1),
    wrapper("strace", "eopsaEPIOSXbu", 0),
    wrapper("ltrace", "eopsaunl", 0),
    wrapper("caffeinate", "tw", 0),
    wrapper("unbuffer", "", 0),
    wrapper("chronic", "", 0),
    wrapper("busybox", "", 0),
    wrapper("toybox", "", 0),
    wrapper("chroot", "", 1),
    wrapper("unshare", "", 0),
    wrapper("firejail", "", 0),
    wrapper("flock", "wEc", 1),
    wrapper("dbus-run-session", "", 0),
    wrapper("xvfb-run", "efnsp", 0),
    Wrapper {
        via: Via::Xargs,
        long: &["--max-args", "--max-procs", "--replace", "--delimiter", "--arg-file", "--max-lines"],
        ..wrapper("xargs", "adEIJLnPRsS", 0)
    },
    Wrapper {
        via: Via::Xargs,
        long: &["--jobs", "--arg-file", "--colsep"],
        ..wrapper("parallel", "jaNIC", 0)
    },
    Wrapper { via: Via::Ssh, ..wrapper("ssh", "bcDEeFIiJLlmOopQRSWw", 1) },
];

/// Programs whose `run` or `exec` runs a command in an environment.
const RUNNERS: &[(&str, &str)] = &[
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("pdm", "run"),
    ("hatch", "run"),
    ("rye", "run"),
    ("bundle", "exec"),
    ("mise", "exec"),
    ("rtk", "proxy"),
];

/// Removes one wrapper. `None`: the command has none.
pub(super) fn unwrap(command: &Command) -> Option<Command> {
    let program = command.program()?;
    if let Some((_, verb)) = RUNNERS.iter().find(|(name, _)| *name == program) {
        let is_run = command.argv.get(1).and_then(Word::value) == Some(verb);
        let rest = command.argv.get(2..).unwrap_or_default();
        let start = rest.iter().position(|word| !word.text.starts_with('-')).unwrap_or(rest.len());
        let argv = rest.get(start..).unwrap_or_default().to_vec();
        return (is_run && !argv.is_empty()).then(|| inner(command, &program, argv, Via::Wrapper));
    }
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == program)?;
    let mut result = inner(command, &program, Vec::new(), wrapper.via);
    let rest = skip_options(wrapper, command.arguments(), &mut result);
    if rest.is_empty() || (program == "command" && asks_only(command)) {
        return None;
    }
    result.argv = match program.as_str() {
        // A word of the shell, not a program: assignments may follow.
        "time" => rest.into_iter().skip_while(|word| is_assignment(&word.text)).collect(),
        _ => rest,
    };
    Some(result)
}

fn is_assignment(text: &str) -> bool {
    let name = text.split_once('=').map_or("", |(name, _)| name);
    name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// `command -v name` prints where a program is.
fn asks_only(command: &Command) -> bool {
    command.argv.get(1).is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V"))
}

fn inner(command: &Command, program: &str, argv: Vec<Word>, via: Via) -> Command {
    let mut wrappers = command.wrappers.clone();
    wrappers.push(program.to_owned());
    // The least certain way is the one that counts.
    Command { argv, via: command.via.max(via), wrappers, ..command.clone() }
}

/// The words of the command that the wrapper runs.
fn skip_options(wrapper: &Wrapper, arguments: &[Word], result: &mut Command) -> Vec<Word> {
    let mut words = arguments.iter().peekable();
    let mut positional = wrapper.positional;
    while let Some(word) = words.peek() {
        let text = word.text.as_str();
        if text == "--" {
            words.next();
            break;
        }
        if text.starts_with('-') && text.len() > 1 {
            let takes_value = takes_value(wrapper, text);
            let option = text.to_owned();
            words.next();
            if takes_value && let Some(value) = words.next() {
                set_option(wrapper, &option, value, result);
            }
            continue;
        }
        if text == "-" && wrapper.name == "env" {
            words.next();
            continue;
        }
        if matches!(wrapper.name, "env" | "sudo" | "doas" | "command")
            && let Some((name, value)) = text.split_once('=')
        {
            let value = Word { text: value.to_owned(), ..(*word).clone() };
            result.environment.push((name.to_owned(), value));
            words.next();
            continue;
        }
        if positional == 0 {
            break;
        }
        positional -= 1;
        words.next();
    }
    let mut rest: Vec<Word> = words.cloned().collect();
    if wrapper.via == Via::Xargs && !rest.is_empty() {
        rest.push(Word::unknown());
    }
    rest
}

fn takes_value(wrapper: &Wrapper, option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        return !long.contains('=') && wrapper.long.contains(&option);
    }
    let letters = option.get(1..).unwrap_or_default();
    // The first letter that takes a value takes the rest of the word; if there is no rest, the next word.
    letters.find(|letter| wrapper.letters.contains(letter)).is_some_and(|at| at + 1 == letters.len())
}

fn set_option(wrapper: &Wrapper, option: &str, value: &Word, result: &mut Command) {
    let is_folder = match wrapper.name {
        "env" => matches!(option, "-C" | "--chdir"),
        "sudo" => matches!(option, "-D" | "--chdir"),
        _ => false,
    };
    if is_folder {
        let base = result.cwd.clone();
        result.cwd = value.value().and_then(|path| crate::path::join(base.as_deref(), path));
    }
}

/// The commands of `find … -exec command {} ;`.
pub(super) fn find_commands(command: &Command) -> Vec<Command> {
    let mut found = Vec::new();
    let mut words = command.arguments().iter();
    while let Some(word) = words.next() {
        if !matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let argv: Vec<Word> = words
            .by_ref()
            .take_while(|word| !matches!(word.text.as_str(), ";" | "+"))
            .map(|word| if word.text.contains("{}") { Word::unknown() } else { word.clone() })
            .collect();
        if !argv.is_empty() {
            found.push(inner(command, "find", argv, Via::Find));
        }
    }
    found
}
