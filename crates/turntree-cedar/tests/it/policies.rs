//! What policies say about requests.

use std::collections::BTreeMap;

use turntree_cedar::{ACTIONS, Answer, Fact, Policies, Request, Resource, SCHEMA};

fn request(program: Option<&str>, arguments: Fact) -> Request {
    Request {
        agent: "a".to_owned(),
        session: "s".to_owned(),
        harness: "claude".to_owned(),
        repo: "/r".to_owned(),
        action: "shell",
        resource: Resource { kind: "program", name: program.map(str::to_owned), is_inside: false },
        facts: vec![
            ("program", Fact::maybe(program)),
            ("arguments", arguments),
            ("line", Fact::Unknown),
            ("via", "direct".into()),
            ("wrappers", Fact::Texts(Vec::new())),
            ("variables", Fact::Texts(Vec::new())),
            ("cwd", "/r".into()),
            ("branch", "main".into()),
        ],
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn parse(text: &str) -> Policies {
    Policies::parse([("a.cedar", text)]).unwrap()
}

const FORBID: &str = r#"
@id("user.a")
forbid (principal, action == Action::"shell", resource)
when { context.program == "kubectl" && context.arguments.contains("prod") };
"#;

#[test]
fn a_forbid_matches_what_its_conditions_say() {
    let policies = parse(FORBID);
    let ask = |program, arguments: &[&str]| {
        policies.ask(&request(Some(program), Fact::Texts(texts(arguments)))).get(&0).copied()
    };

    assert_eq!(ask("kubectl", &["get", "prod"]), Some(Answer::Matches));
    assert_eq!(ask("kubectl", &["get", "test"]), None);
    assert_eq!(ask("ls", &["prod"]), None);
}

#[test]
fn what_is_not_known_may_match_and_what_is_known_counts() {
    let policies = parse(FORBID);
    let ask = |program, arguments| policies.ask(&request(program, arguments)).get(&0).copied();

    assert_eq!(ask(Some("kubectl"), Fact::PartOfTexts(texts(&["get"]))), Some(Answer::Perhaps));
    assert_eq!(ask(Some("kubectl"), Fact::PartOfTexts(texts(&["prod"]))), Some(Answer::Matches));
    assert_eq!(ask(Some("ls"), Fact::PartOfTexts(texts(&["prod"]))), None);
    assert_eq!(ask(None, Fact::Unknown), Some(Answer::Perhaps));
}

#[test]
fn the_permits_of_a_file_are_a_list_of_what_is_allowed() {
    let policies = parse(
        r#"
        @id("user.only")
        permit (principal, action == Action::"shell", resource == Resource::"ls");
        permit (principal, action in [Action::"edit", Action::"read"], resource);
        "#,
    );
    let ask = |program| policies.ask(&request(program, Fact::Texts(Vec::new())));

    assert!(ask(Some("ls")).is_empty());
    assert_eq!(ask(Some("rm")), BTreeMap::from([(0, Answer::Matches)]));
    assert_eq!(ask(None), BTreeMap::from([(0, Answer::Perhaps)]));
}

#[test]
fn entities_have_their_parents_and_attributes() {
    let policies = parse(
        r#"@id("user.a") forbid (principal in Session::"s", action, resource) when { principal.harness == "claude" };
           @id("user.b") forbid (principal == Agent::"b", action, resource);
           @id("user.c") forbid (principal, action, resource in Repo::"/r");
           @id("user.d") forbid (principal, action, resource) unless { resource.kind == "file" };"#,
    );

    let answers = policies.ask(&request(Some("ls"), Fact::Texts(Vec::new())));

    assert_eq!(answers, BTreeMap::from([(0, Answer::Matches), (3, Answer::Matches)]));
}

#[test]
fn facts_of_git_are_there_for_git_alone() {
    let policies = parse(
        r#"@id("user.a") forbid (principal, action == Action::"shell", resource)
           when { context has git && context.git.verb == "push" && context.git.branches.contains("release") };"#,
    );
    let mut push = request(Some("git"), Fact::Texts(Vec::new()));
    assert!(policies.ask(&push).is_empty());
    let git = |branches| {
        Fact::Record(vec![("verb", "push".into()), ("forces", Fact::Flag(false)), ("branches", branches)])
    };

    push.facts.push(("git", git(Fact::Texts(texts(&["release"])))));
    assert_eq!(policies.ask(&push), BTreeMap::from([(0, Answer::Matches)]));
    push.facts.pop();
    push.facts.push(("git", git(Fact::Unknown)));
    assert_eq!(policies.ask(&push), BTreeMap::from([(0, Answer::Perhaps)]));
}

#[test]
fn a_policy_that_cannot_be_evaluated_says_so() {
    let policies = parse(FORBID);
    let mut request = request(Some("kubectl"), Fact::Texts(Vec::new()));
    request.facts.retain(|(name, _)| *name != "arguments");

    assert_eq!(policies.ask(&request), BTreeMap::from([(0, Answer::Failed)]));
}

#[test]
fn the_actions_are_those_of_the_schema() {
    let named: Vec<&str> = SCHEMA.lines().filter_map(|line| line.strip_prefix("action ")).collect();

    assert_eq!(named, ACTIONS.map(|action| format!("{action} appliesTo {{")));
}

#[test]
fn a_policy_is_about_the_actions_of_its_scope() {
    let policies = parse(
        r#"@id("user.one") forbid (principal, action == Action::"mcp", resource);
           @id("user.some") forbid (principal, action in [Action::"edit", Action::"mcp"], resource);
           @id("user.all") forbid (principal, action, resource) unless { action == Action::"read" };"#,
    );
    let about = |action| {
        let mut asked = request(Some("x"), Fact::Texts(Vec::new()));
        asked.action = action;
        policies.ask(&asked).into_keys().collect::<Vec<_>>()
    };

    assert_eq!(ACTIONS.map(about), [vec![2], vec![1, 2], vec![], vec![0, 1, 2], vec![2]]);
}

#[test]
fn what_no_permit_is_about_is_not_allowed() {
    let policies = parse(r#"@id("user.only") permit (principal, action == Action::"edit", resource);"#);

    let answers = policies.ask(&request(None, Fact::Unknown));

    assert_eq!(answers, BTreeMap::from([(0, Answer::Matches)]));
}

#[test]
fn files_that_have_passed_the_check_are_parsed_without_it() {
    let wrong = r#"@id("user.a") forbid (principal, action, resource) when { context.nothing == "x" };"#;

    assert!(Policies::parse([("a.cedar", wrong)]).is_err());
    let parsed = Policies::parse_checked([("a.cedar", wrong)]).unwrap();
    let mut known = request(Some("ls"), Fact::Texts(Vec::new()));
    known.facts.retain(|(_, fact)| *fact != Fact::Unknown);
    assert_eq!(parsed.ask(&known), BTreeMap::from([(0, Answer::Failed)]));
    assert!(Policies::parse_checked([("a.cedar", "forbid (")]).is_err());
}
