//! Conversations as text and HTML, safe for terminals and browsers.

use proptest::prelude::*;
use turntree::core::render::{EntryKind, ObjectSummary, Transcript, TranscriptEntry, visible, visible_lines};

fn transcript_of(text: &str) -> Transcript {
    let entry = TranscriptEntry {
        kind: EntryKind::User,
        head: text.to_owned(),
        time: text.to_owned(),
        text: text.to_owned(),
    };
    Transcript {
        title: text.to_owned(),
        summary: text.to_owned(),
        drawing: text.to_owned(),
        entries: vec![entry],
    }
}

#[test]
fn text_has_one_paragraph_for_each_entry() {
    let mut transcript = transcript_of("two\nlines");
    transcript.drawing.clear();

    let text = transcript.text(false);

    assert_eq!(text, "two lines\ntwo lines\n\ntwo lines  two lines\n  two\n  lines\n");
}

#[test]
fn escape_sequences_are_escaped_in_text() {
    let text = transcript_of("\u{1b}[2J\u{1b}]0;title\u{7}\r\u{202E}gnp").text(false);

    assert!(
        !text.contains('\u{1b}')
            && !text.contains('\u{7}')
            && !text.contains('\u{202E}')
            && !text.contains('\r')
    );
    assert!(text.contains(r"\x1b[2J\x1b]0;title\x07 \u202egnp"));
    assert!(transcript_of("plain").text(true).contains("\u{1b}[1;36mplain\u{1b}[0m"));
}

#[test]
fn a_page_contains_no_scripts_and_loads_no_resources() {
    let page = transcript_of("</pre><script>alert(1)</script><img src=x onerror='a'>").html();

    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("<script") && !page.contains("<img"));
}

fn controls_a_terminal(character: char) -> bool {
    let marks = ['\u{061C}', '\u{200E}', '\u{200F}', '\u{2028}', '\u{2029}', '\u{202A}', '\u{202B}'];
    let more = ['\u{202C}', '\u{202D}', '\u{202E}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}'];
    character.is_control() || marks.contains(&character) || more.contains(&character)
}

#[test]
fn control_characters_are_escaped_and_other_characters_remain() {
    assert_eq!(visible("plain é 😀 \u{a0}"), "plain é 😀 \u{a0}");
    assert_eq!(visible("\u{9b}31m\u{85}\u{2028}\u{61c}\t"), r"\x9b31m\x85\u2028\u061c\x09");
    assert_eq!(visible_lines("a\n\tb\r\u{2069}"), "a\n\tb\\x0d\\u2069");
}

proptest! {
    /// The tags of a page are those of the template for any content.
    #[test]
    fn a_page_has_the_same_tags_for_any_text(text in "\\PC*|[<>&\"'a/ =]{0,40}") {
        let tags = |page: &str| (page.matches('<').count(), page.matches('>').count());

        prop_assert_eq!(tags(&transcript_of(&text).html()), tags(&transcript_of("x").html()));
    }

    #[test]
    fn text_has_no_control_characters_except_line_ends(text in any::<String>()) {
        let shown = transcript_of(&text).text(false);

        prop_assert!(shown.chars().all(|character| character == '\n' || !controls_a_terminal(character)));
    }

    #[test]
    fn the_text_of_an_object_has_no_control_characters(text in any::<String>()) {
        let object = serde_json::json!({ text.as_str(): text.as_str() }).to_string();

        prop_assert!(!ObjectSummary::of(&text, &object).text().contains(controls_a_terminal));
    }
}

#[test]
fn the_summary_of_an_object_shortens_values_and_escapes_html() {
    let long = format!(r#"{{"toolName": "<b>", "text": "{}"}}"#, "é".repeat(60));

    let summary = ObjectSummary::of("Call", &long);

    assert_eq!(summary.text(), format!(r#"Call(tool_name="<b>", text="{}…)"#, "é".repeat(58)));
    assert!(summary.html().contains("<th>tool_name</th><td><code>&quot;&lt;b&gt;&quot;</code></td>"));
    assert_eq!(ObjectSummary::of("Call", "[1]").text(), "Call()");
}
