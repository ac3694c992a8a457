//! Texts that are no policies.

use proptest::prelude::*;
use turntree_cedar::Policies;

fn wrong(text: &str) -> String {
    Policies::parse([("team.cedar", text)]).unwrap_err().to_string()
}

#[test]
fn an_error_names_file_line_rule_and_remedy() {
    let head = "// What nobody may do.\n@id(\"user.a\")\nforbid (principal, action == Action::\"shell\", resource)\n";
    for (tail, words) in [
        ("when { context.progam == \"x\" };", "team.cedar:4: user.a: "),
        ("when { context.program == 1 };", "team.cedar:4: user.a: "),
        ("when { context.program == \"x\" && };", "team.cedar:4: "),
        ("when { principal == Group::\"x\" };", "Group"),
        ("when { false };", "user.a: "),
        ("when { context.program == \"x\" }", "team.cedar:4"),
    ] {
        let error = wrong(&format!("{head}{tail}\n"));
        assert!(error.contains(words) && error.contains("; "), "{error}");
    }
    let double = format!("{head};\n{head};");
    assert!(
        wrong(&double).contains("team.cedar:6: user.a: another policy has this id; rename one"),
        "{}",
        wrong(&double)
    );
    let template = "@id(\"user.a\") forbid (principal == ?principal, action, resource);";
    assert!(wrong(template).contains("template"), "{}", wrong(template));
}

#[test]
fn letters_that_look_like_others_are_refused() {
    let text = "@id(\"user.a\") forbid (principal, action, resource == Resource::\"\u{440}sql-x\");";

    assert!(wrong(text).contains("team.cedar:1: user.a: "), "{}", wrong(text));
}

#[test]
fn deep_and_long_policies_are_refused_before_they_are_parsed() {
    let with =
        |condition: &str| wrong(&format!("forbid (principal, action, resource) when {{ {condition} }};"));

    assert!(with(&format!("{}true{}", "(".repeat(40), ")".repeat(40))).contains("brackets"));
    assert!(with(&"true && ".repeat(100_000)).contains("bytes"));
    assert!(with(&"true && ".repeat(2_000)).contains("words and operators"));
    assert!(with(&"!".repeat(10_000)).contains("words and operators"));
    assert!(wrong(&" ".repeat(300_000)).contains("split it"));
}

/// The largest policies that the limits let through must not overflow the stack of a thread of two megabytes.
#[test]
fn policies_at_the_limits_are_parsed_or_refused() {
    let nested = |count: usize| format!("{}true{}", "(".repeat(count), ")".repeat(count));
    let conditions = [
        nested(29),
        format!("{}true", "true && ".repeat(600)),
        format!("{}true", "true || ".repeat(600)),
        format!("1{} == 2", " + 1".repeat(900)),
        format!("{}true{}", "if true then true else ".repeat(320), ""),
        format!("principal{}", ".a".repeat(900)),
        format!("principal{}", "[\"a\"]".repeat(600)),
        format!("{}true", "!".repeat(1_500)),
        format!("{}1 == 1", "-".repeat(1_500)),
        format!("[{}].contains(\"x\")", "\"x\", ".repeat(5_000)),
    ];
    for condition in conditions {
        let text = format!("@id(\"user.a\") forbid (principal, action, resource) when {{ {condition} }};");
        let parsed = Policies::parse([("a.cedar", text.as_str())]);
        drop(parsed.map(|policies| policies.list().len()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_is_a_panic(text in any::<String>(), cut in any::<prop::sample::Index>()) {
        let _ = Policies::parse([("a.cedar", text.as_str())]);
        let good = "@id(\"user.a\")\nforbid (principal, action == Action::\"edit\", resource)\nwhen { context.path like \"a/*\" };\n";
        let at = cut.index(good.len());
        let mixed = format!("{}{text}{}", &good[..at], &good[at..]);
        let _ = Policies::parse([("a.cedar", mixed.as_str())]);
    }
}
