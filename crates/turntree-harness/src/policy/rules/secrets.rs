//! Rules about secrets, and the scanner that they use.

use super::super::action::{Action, ActionKind};
use super::super::context::Context;
use super::super::decision::{Finding, Outcome};

/// What begins a secret, and the least number of characters that follow.
const PREFIXES: &[(&str, usize, &str)] = &[
    ("AKIA", 16, "an access key of AWS"),
    ("ASIA", 16, "an access key of AWS"),
    ("ghp_", 36, "a token of GitHub"),
    ("gho_", 36, "a token of GitHub"),
    ("ghs_", 36, "a token of GitHub"),
    ("github_pat_", 40, "a token of GitHub"),
    ("glpat-", 20, "a token of GitLab"),
    ("sk-ant-", 20, "a key of Anthropic"),
    ("sk-proj-", 20, "a key of OpenAI"),
    ("sk_live_", 20, "a key of Stripe"),
    ("rk_live_", 20, "a key of Stripe"),
    ("xoxb-", 20, "a token of Slack"),
    ("xoxp-", 20, "a token of Slack"),
    ("AIza", 35, "a key of Google"),
    ("npm_", 36, "a token of npm"),
    ("pypi-AgEIcHlwaS5vcmc", 40, "a token of PyPI"),
    ("hf_", 30, "a token of Hugging Face"),
    ("dop_v1_", 40, "a token of DigitalOcean"),
    ("SG.", 40, "a key of SendGrid"),
];

/// Finds a secret in a text: what it is. Placeholders such as `AKIAXXXXXXXXXXXXXXXX` do not count.
pub fn scan(text: &str) -> Option<&'static str> {
    let is_key = text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----");
    if is_key {
        return Some("a private key");
    }
    PREFIXES.iter().find(|(prefix, least, _)| has_token(text, prefix, *least)).map(|(_, _, what)| *what)
}

fn has_token(text: &str, prefix: &str, least: usize) -> bool {
    text.match_indices(prefix).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let rest: String = text
            .get(at + prefix.len()..)
            .unwrap_or_default()
            .chars()
            .take_while(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.'))
            .collect();
        let mut distinct: Vec<char> = rest.chars().collect();
        distinct.sort_unstable();
        distinct.dedup();
        // Placeholders repeat a character.
        let is_random = distinct.len() >= 8;
        before.is_none_or(|char| !char.is_ascii_alphanumeric()) && rest.len() >= least && is_random
    })
}

pub(super) fn literal(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let found = match &action.kind {
        ActionKind::Shell { command, .. } => scan(command),
        ActionKind::Edit { added, .. } => scan(added),
        ActionKind::Mcp { arguments, .. } | ActionKind::Other { arguments, .. } => {
            scan(&arguments.to_string())
        }
        ActionKind::Read => None,
    };
    let deny = |what: &str| Finding {
        rule: "secrets.literal".into(),
        outcome: Outcome::Deny,
        reason: format!("the text has {what}, which would stay in files, logs and histories"),
        remedy: "read it from the environment or a secret store by name".to_owned(),
    };
    found.map(deny).into_iter().collect()
}

/// Patterns of files with secrets.
const FILES: &[&str] = &[
    "**/.ssh/id_*",
    "**/.ssh/*_key",
    "**/.aws/credentials",
    "**/.netrc",
    "**/.pgpass",
    "**/.npmrc",
    "**/.pypirc",
    "**/.docker/config.json",
    "**/.kube/config",
    "**/.config/gcloud/**",
    "**/.config/gh/hosts.yml",
    "**/.gnupg/**",
    "**/.env",
    "**/.env.local",
    "**/.env.production",
    "**/*.pem",
    "**/id_rsa",
    "**/id_ed25519",
    "/etc/shadow",
];

fn is_secret_file(path: &str) -> bool {
    if path.rsplit_once('.').is_some_and(|(_, extension)| extension == "pub") {
        return false;
    }
    FILES.iter().any(|pattern| {
        crate::path::matches(pattern, path) || crate::path::matches(pattern, path.trim_start_matches('/'))
    })
}

/// Paths that the commands of an action name.
fn secret_files(action: &Action) -> Vec<String> {
    let mut found: Vec<String> = action.paths.iter().filter(|path| is_secret_file(path)).cloned().collect();
    if let ActionKind::Shell { script, .. } = &action.kind {
        for command in &script.commands {
            let is_reader = !matches!(
                command.program().as_deref(),
                Some(
                    "ls" | "test"
                        | "["
                        | "stat"
                        | "touch"
                        | "echo"
                        | "printf"
                        | "chmod"
                        | "ssh"
                        | "git"
                        | "rm"
                        | "mkdir"
                        | "find"
                        | "grep"
                        | "rg"
                )
            );
            if !is_reader {
                continue;
            }
            for word in command.arguments() {
                let text = word.text.rsplit(['@', '=']).next().unwrap_or_default();
                let path = crate::path::join(command.cwd.as_deref(), text);
                found.extend(path.filter(|path| is_secret_file(path)));
            }
        }
        let reads = script.redirects.iter().filter(|redirect| !redirect.writes());
        found.extend(
            reads
                .filter_map(|redirect| crate::path::join(redirect.cwd.as_deref(), &redirect.target.text))
                .filter(|path| is_secret_file(path)),
        );
    }
    found
}

const SENDERS: &[&str] = &[
    "curl", "wget", "nc", "ncat", "netcat", "scp", "rsync", "ftp", "sftp", "http", "https", "xh", "socat",
    "telnet", "aws", "gsutil", "rclone",
];

pub(super) fn send(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let ActionKind::Shell { script, .. } = &action.kind else { return Vec::new() };
    let sender = script
        .commands
        .iter()
        .find(|command| command.program().is_some_and(|program| SENDERS.contains(&program.as_str())));
    let prints_all = |command: &crate::shell::Command| {
        matches!(command.program().as_deref(), Some("env" | "printenv")) && command.argv.len() == 1
    };
    let Some(sender) = sender else { return Vec::new() };
    let what = match secret_files(action).first() {
        Some(path) => format!("the file \"{path}\""),
        None if script.commands.iter().any(prints_all) => "all variables of the environment".to_owned(),
        None => return Vec::new(),
    };
    let reason = format!("\"{}\" may send {what}", sender.show());
    let remedy = "keep secrets on this machine; name a variable instead".to_owned();
    vec![Finding { rule: "secrets.send".into(), outcome: Outcome::Deny, reason, remedy }]
}

pub(super) fn read(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    if matches!(action.kind, ActionKind::Edit { .. }) {
        return Vec::new();
    }
    let ask = |path: &String| Finding {
        rule: "secrets.read".into(),
        outcome: Outcome::Ask,
        reason: format!("\"{path}\" has secrets, which the model would see"),
        remedy: "use the variables by name, or read an example file".to_owned(),
    };
    secret_files(action).first().map(ask).into_iter().collect()
}
