//! Conversations for people: nothing in them is obeyed by a terminal or a browser.

use proptest::prelude::*;
use turntree::core::render::{EntryKind, Transcript, TranscriptEntry};

fn saying(text: &str) -> Transcript {
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
fn text_is_one_paragraph_an_entry() {
    let mut transcript = saying("two\nlines");
    transcript.drawing.clear();

    let text = transcript.text(false);

    assert_eq!(text, "two lines\ntwo lines\n\ntwo lines  two lines\n  two\n  lines\n");
}

#[test]
fn escape_sequences_of_a_document_do_not_reach_the_terminal() {
    let text = saying("\u{1b}[2J\u{1b}]0;title\u{7}\r\u{202E}gnp").text(false);

    assert!(
        !text.contains('\u{1b}')
            && !text.contains('\u{7}')
            && !text.contains('\u{202E}')
            && !text.contains('\r')
    );
    assert!(saying("plain").text(true).contains("\u{1b}[1;36mplain\u{1b}[0m"));
}

#[test]
fn the_page_loads_and_runs_nothing() {
    let page = saying("</pre><script>alert(1)</script><img src=x onerror='a'>").html();

    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("<script") && !page.contains("<img"));
}

proptest! {
    /// The tags of a page are those of the template, whatever is said in it.
    #[test]
    fn a_page_has_the_same_tags_whatever_is_said(text in "\\PC*|[<>&\"'a/ =]{0,40}") {
        let tags = |page: &str| (page.matches('<').count(), page.matches('>').count());

        prop_assert_eq!(tags(&saying(&text).html()), tags(&saying("x").html()));
    }

    #[test]
    fn text_has_no_control_characters_but_line_ends(text in any::<String>()) {
        let shown = saying(&text).text(false);

        prop_assert!(shown.chars().all(|character| character == '\n' || !character.is_control()));
    }
}
