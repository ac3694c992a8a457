//! The corpus of commands: `tests/data/commands.tsv`.

use std::collections::BTreeSet;

use turntree_harness::policy::context::Alone;
use turntree_harness::policy::rules::RULES;
use turntree_harness::{Action, Gate, Outcome, Project};

use crate::support::Repository;

const CORPUS: &str = include_str!("../data/commands.tsv");

struct Row {
    outcome: &'static str,
    rule: &'static str,
    place: &'static str,
    command: String,
}

fn rows() -> Vec<Row> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.map(|line| {
        let [outcome, rule, place, command] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let command = command.replace("\\n", "\n").replace("\\t", "\t");
        Row { outcome, rule, place, command }
    });
    rows.collect()
}

#[test]
fn every_command_of_the_corpus_has_its_outcome() {
    let repository = Repository::new();
    let project = Project::find(&repository.tree()).unwrap();
    let gate = Gate::load(&project).unwrap();
    let (tree, main) = (repository.tree().display().to_string(), repository.main().display().to_string());

    let mut wrong = Vec::new();
    let rows = rows();
    for row in &rows {
        let cwd = if row.place == "m" { &main } else { &tree };
        let action = Action::shell(&row.command, cwd, gate.home());
        let decision = gate.decide(&action, &[], &Alone);
        let ids: Vec<&str> = decision.rules.iter().map(|matched| matched.finding.rule.as_ref()).collect();
        let has_rule = row.rule == "-" || ids.contains(&row.rule);
        if decision.outcome.as_str() != row.outcome || !has_rule {
            let (got, want) = (decision.outcome.as_str(), row.outcome);
            wrong.push(format!("{}: {got} {ids:?}, not {want} {}", row.command, row.rule));
        }
    }

    assert!(rows.len() >= 600, "{} rows", rows.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn every_rule_about_commands_has_an_example() {
    let named: BTreeSet<&str> = rows().iter().map(|row| row.rule).collect();
    let elsewhere = ["coordination.collision", "coordination.drift", "review.tests", "review.freshness"];

    let missing: Vec<&str> = RULES
        .iter()
        .map(|rule| rule.id)
        .filter(|id| !named.contains(id) && !elsewhere.contains(id))
        .collect();

    assert!(missing.is_empty(), "{missing:?}");
}

/// Ordinary commands of development, written down without a look at the rules. The documentation has the figures.
#[test]
fn few_ordinary_commands_need_a_person_and_none_is_denied() {
    let repository = Repository::new();
    let gate = Gate::load(&Project::find(&repository.tree()).unwrap()).unwrap();
    let tree = repository.tree().display().to_string();
    let commands: Vec<String> = include_str!("../data/ordinary.txt").lines().map(decoded).collect();

    let outcome =
        |command: &String| gate.decide(&Action::shell(command, &tree, gate.home()), &[], &Alone).outcome;
    let blocked: Vec<_> = commands
        .iter()
        .map(|command| (outcome(command), command))
        .filter(|(outcome, _)| *outcome != Outcome::Allow)
        .collect();

    assert_eq!(commands.len(), 323);
    assert!(blocked.iter().all(|(outcome, _)| *outcome < Outcome::Deny), "{blocked:?}");
    assert!(blocked.len() <= 2, "{blocked:?}");
}

/// Lines with a here-document have `\n` for the end of a line; in others it belongs to a command such as `printf`.
fn decoded(line: &str) -> String {
    if line.contains("EOF") { line.replace("\\n", "\n") } else { line.to_owned() }
}
