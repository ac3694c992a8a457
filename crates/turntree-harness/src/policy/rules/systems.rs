//! Rules about infrastructure, databases, containers, processes, devices and publishing.

use super::super::action::{Action, ActionKind};
use super::super::context::Context;
use super::super::decision::{Finding, Outcome};
use crate::shell::Command;

/// A command line that a rule knows by its words.
struct Pattern {
    programs: &'static [&'static str],
    /// Each of these words must be there; alternatives are separated by `|`.
    words: &'static [&'static str],
    outcome: Outcome,
    reason: &'static str,
    remedy: &'static str,
}

const fn deny(
    programs: &'static [&'static str],
    words: &'static [&'static str],
    reason: &'static str,
    remedy: &'static str,
) -> Pattern {
    Pattern { programs, words, outcome: Outcome::Deny, reason, remedy }
}

const fn ask(
    programs: &'static [&'static str],
    words: &'static [&'static str],
    reason: &'static str,
    remedy: &'static str,
) -> Pattern {
    Pattern { programs, words, outcome: Outcome::Ask, reason, remedy }
}

const PLAN: &str = "change the infrastructure code and show the plan to a person";
const CONTEXT: &str = "change the manifests in the repository, or name the context and let a person approve";

const INFRASTRUCTURE: &[Pattern] = &[
    deny(&["terraform", "tofu", "terragrunt"], &["destroy|-destroy"], "it destroys infrastructure", PLAN),
    deny(&["terraform", "tofu", "terragrunt"], &["apply|run-all"], "it changes live infrastructure", PLAN),
    deny(
        &["terraform", "tofu", "terragrunt"],
        &["state", "rm|mv|push|replace-provider"],
        "it changes the state of infrastructure",
        PLAN,
    ),
    ask(
        &["terraform", "tofu", "terragrunt"],
        &["import|taint|untaint|force-unlock"],
        "it changes the state of infrastructure",
        PLAN,
    ),
    deny(&["pulumi"], &["up|destroy|update"], "it changes live infrastructure", PLAN),
    deny(
        &["cdk", "sst", "serverless", "sls"],
        &["deploy|destroy|remove"],
        "it changes live infrastructure",
        PLAN,
    ),
    deny(
        &["ansible-playbook"],
        &[],
        "it changes live machines",
        "run it with --check, and let a person run it",
    ),
    deny(&["kubectl", "oc", "k"], &["delete|drain|cordon"], "it removes from a live cluster", CONTEXT),
    ask(
        &["kubectl", "oc", "k"],
        &["apply|create|patch|replace|scale|edit|set|rollout|exec|annotate|label|run|expose|autoscale|taint"],
        "it changes a live cluster",
        CONTEXT,
    ),
    deny(&["helm"], &["uninstall|delete|rollback"], "it removes a release from a live cluster", CONTEXT),
    ask(&["helm"], &["install|upgrade"], "it changes a live cluster", CONTEXT),
    deny(
        &["aws"],
        &["delete-*|terminate-*|remove-*|deregister-*|rb|purge-*"],
        "it removes cloud resources",
        PLAN,
    ),
    deny(&["aws"], &["s3", "rm"], "it removes stored objects", PLAN),
    ask(
        &["aws"],
        &["create-*|update-*|put-*|modify-*|run-*|stop-*|start-*|reboot-*|attach-*|detach-*"],
        "it changes cloud resources",
        PLAN,
    ),
    deny(
        &["gcloud", "az", "doctl", "flyctl", "fly", "heroku", "gsutil"],
        &["delete|destroy|rm|purge|apps:destroy"],
        "it removes cloud resources",
        PLAN,
    ),
    ask(
        &["gcloud", "az", "doctl", "flyctl", "fly", "vercel", "netlify", "wrangler"],
        &["deploy|create|update|--prod"],
        "it changes live services",
        PLAN,
    ),
];

const BACKUP: &str = "use a database of the tests, or let a person do it after a backup";

const DATABASE: &[Pattern] = &[
    deny(&["dropdb", "dropuser"], &[], "it drops a database", BACKUP),
    deny(&["mysqladmin"], &["drop"], "it drops a database", BACKUP),
    deny(&["redis-cli", "valkey-cli"], &["flushall|flushdb"], "it removes all keys", BACKUP),
    ask(&["mongosh", "mongo"], &["*dropdatabase*|*.drop(*"], "it drops a database", BACKUP),
    ask(
        &["alembic", "rails", "prisma", "knex"],
        &["downgrade|db:drop|db:reset|reset|migrate:rollback"],
        "it removes data of a database",
        BACKUP,
    ),
    ask(&["npx", "pnpm", "yarn"], &["prisma", "reset"], "it removes data of a database", BACKUP),
];

const SQL_CLIENTS: &[&str] =
    &["psql", "mysql", "mariadb", "sqlite3", "sqlcmd", "clickhouse-client", "duckdb"];

const CONTAINERS: &[Pattern] = &[
    ask(
        &["docker", "podman", "nerdctl"],
        &["prune"],
        "it removes containers, images or data",
        "remove single containers by name",
    ),
    ask(
        &["docker", "podman", "nerdctl"],
        &["volume", "rm|remove"],
        "it removes stored data",
        "keep the volume, or ask a person",
    ),
    ask(
        &["docker", "podman", "docker-compose"],
        &["down", "-v|--volumes"],
        "it removes stored data",
        "run it without -v",
    ),
    ask(
        &["docker", "podman"],
        &["run", "--privileged"],
        "the container may do anything on this machine",
        "run it without --privileged",
    ),
    ask(
        &["docker", "podman", "nerdctl"],
        &[
            "run|create",
            "/:*|-v/:*|--volume=/:*|*docker.sock*|/etc:*|/root:*|/home:*|*source=/,*|*src=/,*|--pid=host",
        ],
        "the container may change this machine",
        "mount folders of the project alone",
    ),
];

const KILL: &str = "end only processes that you started, by their id";

const PROCESS: &[Pattern] = &[
    deny(&["killall", "killall5", "skill"], &[], "it ends all processes of a name", KILL),
    deny(&["pkill"], &[], "it ends all processes that match", KILL),
    deny(&["fuser"], &["-k|-ki|-mk|-km|--kill"], "it ends the processes that use a port or a file", KILL),
    deny(&["kill"], &["-1|0|1"], "it ends all processes", KILL),
    deny(
        &["shutdown", "reboot", "poweroff", "halt", "init", "telinit"],
        &[],
        "it stops the machine",
        "ask a person",
    ),
    ask(
        &["systemctl", "service", "launchctl", "rc-service", "supervisorctl", "pm2"],
        &["stop|restart|disable|mask|kill|bootout|unload|delete|reload"],
        "it stops or restarts a service",
        "ask a person",
    ),
    ask(&["crontab"], &["-r|-e|-"], "it changes scheduled jobs", "ask a person"),
    ask(&["iptables", "nft", "ufw"], &[], "it changes the firewall", "ask a person"),
];

const DEVICE: &[Pattern] = &[
    deny(
        &[
            "mkfs",
            "mkswap",
            "wipefs",
            "fdisk",
            "parted",
            "sfdisk",
            "blkdiscard",
            "cryptsetup",
            "lvremove",
            "vgremove",
        ],
        &[],
        "it changes a disk",
        "ask a person",
    ),
    deny(&["dd"], &["of=/dev/*"], "it writes to a device", "write to a file below the working tree"),
];

const RELEASE: &str = "prepare the release and let a person publish it";

const PUBLISH: &[Pattern] = &[
    ask(
        &["npm", "pnpm", "yarn", "bun", "cargo", "poetry", "uv", "flit", "hatch", "pdm", "dart"],
        &["publish"],
        "it publishes a package",
        RELEASE,
    ),
    deny(&["npm", "pnpm", "yarn"], &["unpublish"], "it removes a published package", RELEASE),
    ask(&["cargo"], &["yank"], "it withdraws a published package", RELEASE),
    ask(&["twine"], &["upload"], "it publishes a package", RELEASE),
    ask(&["gem"], &["push|yank"], "it publishes a package", RELEASE),
    ask(&["docker", "podman"], &["push"], "it publishes an image", RELEASE),
    ask(&["gh", "glab"], &["release", "create|delete|upload|edit"], "it changes a release", RELEASE),
    ask(&["gh", "glab"], &["pr|mr", "merge"], "it merges a pull request", "let a person merge it"),
    deny(
        &["gh", "glab"],
        &["repo", "delete|archive|edit"],
        "it changes the repository itself",
        "ask a person",
    ),
    ask(
        &["gh"],
        &["api", "delete|-xdelete|--method=delete"],
        "it removes something through the API",
        "let a person do it",
    ),
    ask(
        &["gh"],
        &["api", "*/merge|*/merges|*/releases*|*/git/refs*|graphql|*/contents/*"],
        "it changes the repository through the API",
        "let a person do it",
    ),
    ask(&["goreleaser", "semantic-release", "release-it"], &[], "it publishes a release", RELEASE),
];

fn commands(action: &Action) -> &[Command] {
    match &action.kind {
        ActionKind::Shell { script, .. } => &script.commands,
        _ => &[],
    }
}

fn has_word(command: &Command, alternatives: &str) -> bool {
    command.arguments().iter().any(|word| {
        let text = word.text.to_lowercase();
        alternatives.split('|').any(|pattern| crate::path::matches(&pattern.replace('*', "**"), &text))
    })
}

/// Help and dry runs change nothing.
fn is_harmless(command: &Command) -> bool {
    let options = [
        "--help",
        "-help",
        "--version",
        "--dry-run",
        "--dry-run=client",
        "--dry-run=server",
        "--check",
        "--dryrun",
        "-h",
    ];
    let program = command.program().unwrap_or_default();
    command
        .arguments()
        .iter()
        .any(|word| options.contains(&word.text.as_str()) && (word.text != "-h" || program != "shutdown"))
}

fn matched(rule: &'static str, action: &Action, patterns: &[Pattern]) -> Vec<Finding> {
    let mut found = Vec::new();
    for command in commands(action).iter().filter(|command| !is_harmless(command)) {
        let Some(program) = command.program() else { continue };
        let base = if program.starts_with("mkfs.") { "mkfs" } else { &program };
        let pattern = patterns.iter().find(|pattern| {
            pattern.programs.contains(&base)
                && pattern.words.iter().all(|alternatives| has_word(command, alternatives))
        });
        if let Some(pattern) = pattern {
            let reason = format!("\"{}\": {}", command.show(), pattern.reason);
            let (rule, remedy) = (rule.into(), pattern.remedy.to_owned());
            found.push(Finding { rule, outcome: pattern.outcome, reason, remedy });
        }
    }
    found
}

pub(super) fn infrastructure(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let mut found = matched("systems.infrastructure", action, INFRASTRUCTURE);
    if let ActionKind::Mcp { server, tool, .. } = &action.kind {
        let text = format!("{server} {tool}").to_lowercase();
        let is_system =
            ["kube", "terraform", "aws", "gcloud", "azure", "cloud"].iter().any(|name| text.contains(name));
        let changes = ["delete", "destroy", "apply", "terminate"].iter().any(|verb| text.contains(verb));
        if is_system && changes {
            let reason = format!("the tool \"{tool}\" of \"{server}\" changes live infrastructure");
            found.push(Finding {
                rule: "systems.infrastructure".into(),
                outcome: Outcome::Ask,
                reason,
                remedy: PLAN.to_owned(),
            });
        }
    }
    found
}

pub(super) fn database(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let mut found = matched("systems.database", action, DATABASE);
    for command in commands(action) {
        let Some(program) = command.program().filter(|program| SQL_CLIENTS.contains(&program.as_str()))
        else {
            continue;
        };
        let stdin = match &command.stdin {
            crate::shell::Stdin::Text(word) => word.text.as_str(),
            _ => "",
        };
        let texts = command.arguments().iter().map(|word| word.text.as_str()).chain([stdin]);
        if texts.map(str::to_lowercase).any(|text| drops(&text)) {
            let reason = format!("{program} runs a statement that removes tables or all rows");
            let remedy = BACKUP.to_owned();
            found.push(Finding { rule: "systems.database".into(), outcome: Outcome::Deny, reason, remedy });
        }
    }
    found
}

fn drops(statement: &str) -> bool {
    statement.split(';').any(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        let has = |first: &str, second: &[&str]| {
            words.windows(2).any(|pair| matches!(pair, [a, b] if *a == first && second.contains(b)))
        };
        has("drop", &["table", "database", "schema", "view"])
            || words.first() == Some(&"truncate")
            || (has("delete", &["from"]) && !words.contains(&"where"))
    })
}

pub(super) fn containers(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    matched("systems.containers", action, CONTAINERS)
}

pub(super) fn process(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let mut found = matched("systems.process", action, PROCESS);
    for command in commands(action) {
        let is_kill = command.program().as_deref() == Some("kill");
        let is_list =
            command.arguments().first().is_some_and(|word| matches!(word.text.as_str(), "-l" | "-L" | "-0"));
        let words = || command.arguments().iter().filter(|word| !word.text.starts_with('-'));
        // The id of a process that the script itself has started is not a text, but `$!` and `%1`.
        let is_unknown = words().any(|word| !word.is_exact);
        if is_kill && !is_list && is_unknown && !action_starts_process(action) {
            let reason = format!("\"{}\" ends processes that are not known", command.show());
            found.push(Finding {
                rule: "systems.process".into(),
                outcome: Outcome::Ask,
                reason,
                remedy: KILL.to_owned(),
            });
        }
    }
    found
}

/// `kill $!` and `kill %1` end what the same command has started.
fn action_starts_process(action: &Action) -> bool {
    match &action.kind {
        ActionKind::Shell { command, .. } => {
            command.contains("$!") || command.contains("kill %") || command.contains("$PID")
        }
        _ => false,
    }
}

pub(super) fn device(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let mut found = matched("systems.device", action, DEVICE);
    if let ActionKind::Shell { script, .. } = &action.kind {
        let disks = [
            "/dev/sd",
            "/dev/nvme",
            "/dev/hd",
            "/dev/vd",
            "/dev/disk",
            "/dev/mem",
            "/dev/xvd",
            "/dev/mapper",
        ];
        let target = script
            .redirects
            .iter()
            .filter(|redirect| redirect.writes())
            .find(|redirect| disks.iter().any(|disk| redirect.target.text.starts_with(disk)));
        if let Some(redirect) = target {
            let reason = format!("it writes to the device \"{}\"", redirect.target.text);
            found.push(Finding {
                rule: "systems.device".into(),
                outcome: Outcome::Deny,
                reason,
                remedy: "write to a file below the working tree".to_owned(),
            });
        }
    }
    found
}

pub(super) fn publish(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    matched("systems.publish", action, PUBLISH)
}
