//! Trees of threads: branch, checkout, merge, history, and their JSON. UAP-1.0 §7 and §13.2.

mod laws;
mod node_handle;

use std::sync::Arc;

use turntree::agents::tree::{SharedTree, ThreadTree, TreeError};
use turntree::core::ids::CountingIds;
use turntree::core::json::ParseErrorKind;
use turntree::core::limits::Limits;
use turntree::message::Message;

use crate::support::agents::clock;

/// A tree with its id source.
struct Fixture {
    tree: ThreadTree,
    ids: CountingIds,
}

impl Fixture {
    fn new() -> Self {
        let ids = CountingIds::default();
        Self { tree: ThreadTree::empty(&ids, &clock()), ids }
    }

    /// Adds messages to the current node; the id of each is its text.
    fn push_texts(&mut self, texts: &[&str]) {
        let messages = texts.iter().map(|text| message(text));
        self.tree.push(messages, &clock());
    }

    fn branch(&mut self, from: &str, name: &str) -> String {
        self.tree.branch(from, Some(name.to_owned()), &self.ids, &clock()).unwrap().to_string()
    }

    fn checkout(&mut self, id: &str) {
        self.tree.checkout(id).unwrap();
    }

    fn root(&self) -> String {
        self.tree.root().id.to_string()
    }

    fn history(&self, id: &str) -> Vec<String> {
        self.tree.history_of(id).unwrap().iter().map(|message| message.id.clone()).collect()
    }
}

fn message(text: &str) -> Arc<Message> {
    let mut message = Message::user(text, &CountingIds::default(), &clock());
    text.clone_into(&mut message.id);
    Arc::new(message)
}

fn ids_of<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<String> {
    messages.into_iter().map(|message| message.id.clone()).collect()
}

fn read(text: &str) -> ThreadTree {
    ThreadTree::from_json(text, &Limits::default()).unwrap()
}

fn write(tree: &ThreadTree) -> String {
    serde_json::to_string(tree).unwrap()
}

#[test]
fn uap_34_the_history_is_the_path_from_the_root_to_the_current_node() {
    let mut fixture = Fixture::new();
    fixture.push_texts(&["root"]);
    for line in [["A", "B"], ["C", "D"]] {
        let mut from = fixture.root();
        for name in line {
            from = fixture.branch(&from, name);
            fixture.checkout(&from);
            fixture.push_texts(&[name]);
        }
        assert_eq!(ids_of(&fixture.tree.history()), ["root", line[0], line[1]]);
    }
}

#[test]
fn uap_34_messages_added_to_the_parent_after_a_branch_are_not_in_the_branch() {
    let mut fixture = Fixture::new();
    fixture.push_texts(&["Create a web server", "Done"]);
    let other = fixture.branch(&fixture.root(), "alternative");
    fixture.push_texts(&["Add middleware"]);
    fixture.checkout(&other);
    fixture.push_texts(&["Use Express instead"]);

    assert_eq!(fixture.history(&other), ["Create a web server", "Done", "Use Express instead"]);
    assert_eq!(fixture.history(&fixture.root()), ["Create a web server", "Done", "Add middleware"]);
    assert_eq!(fixture.tree.history_len(&other), Ok(3));
}

#[test]
fn uap_35_ids_are_uuids_of_version_4() {
    let mut fixture = Fixture::new();
    let branch = fixture.branch(&fixture.root(), "x");

    for id in [fixture.root(), branch] {
        assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 4);
    }
}

#[test]
fn uap_36_a_branch_is_a_child_of_its_node_and_is_not_checked_out() {
    let mut fixture = Fixture::new();
    let branch = fixture.branch(&fixture.root(), "x");

    let node = fixture.tree.node(&branch).unwrap();
    assert_eq!(node.parent_id.as_ref().map(ToString::to_string), Some(fixture.root()));
    assert_eq!(node.name.as_deref(), Some("x"));
    assert_eq!(fixture.tree.root().children.iter().map(ToString::to_string).collect::<Vec<_>>(), [branch]);
    assert_eq!(fixture.tree.current().id.as_str(), fixture.root());
}

#[test]
fn uap_37_messages_go_to_the_node_that_was_checked_out() {
    let mut fixture = Fixture::new();
    let branch = fixture.branch(&fixture.root(), "x");
    fixture.checkout(&branch);
    fixture.push_texts(&["here"]);

    assert_eq!(fixture.tree.current().thread.messages.len(), 1);
    assert!(fixture.tree.root().thread.messages.is_empty());
}

#[test]
fn an_unknown_id_is_an_error_with_the_id() {
    let mut fixture = Fixture::new();
    let error = TreeError::UnknownNode { id: "missing".to_owned() };
    assert!(error.to_string().contains("\"missing\""));
    let unknown = Err(error);

    assert_eq!(fixture.tree.checkout("missing"), unknown);
    assert_eq!(fixture.tree.merge("missing", &fixture.root(), &clock()).map(|_| ()), unknown);
    assert_eq!(fixture.tree.merge(&fixture.root(), "missing", &clock()).map(|_| ()), unknown);
    assert_eq!(fixture.tree.branch("missing", None, &fixture.ids, &clock()).map(|_| ()), unknown);
    assert_eq!(fixture.tree.diff("missing", "missing").map(|_| ()), unknown);
    assert_eq!(fixture.tree.history_of("missing").map(|_| ()), unknown);
}

#[test]
fn merge_adds_missing_messages_and_records_the_source() {
    let mut fixture = Fixture::new();
    fixture.push_texts(&["1"]);
    let early = fixture.branch(&fixture.root(), "early");
    fixture.push_texts(&["2"]);
    let late = fixture.branch(&fixture.root(), "late");
    fixture.checkout(&early);
    fixture.push_texts(&["e"]);
    fixture.checkout(&late);
    fixture.push_texts(&["l"]);

    let added = fixture.tree.merge(&late, &early, &clock());

    assert_eq!(added, Ok(2));
    assert_eq!(fixture.history(&early), ["1", "e", "2", "l"]);
    assert_eq!(fixture.history(&late), ["1", "2", "l"]);
    assert_eq!(fixture.tree.current().id.as_str(), late);
    let merged = fixture.tree.node(&early).unwrap().metadata.get("mergedFrom").unwrap();
    assert_eq!(merged.get(), format!("[\"{late}\"]"));
    assert!(fixture.tree.diff(&late, &early).unwrap().only_a.is_empty());
}

#[test]
fn merging_a_node_or_its_ancestor_into_the_node_has_no_effect() {
    let mut fixture = Fixture::new();
    let branch = fixture.branch(&fixture.root(), "x");
    fixture.push_texts(&["later"]);
    let before = fixture.tree.clone();

    assert_eq!(fixture.tree.merge(&fixture.root(), &branch, &clock()), Ok(0));
    assert_eq!(fixture.tree.merge(&branch, &branch, &clock()), Ok(0));

    assert_eq!(fixture.tree, before);
}

#[test]
fn diff_returns_the_ancestor_and_the_messages_of_each_side() {
    let mut fixture = Fixture::new();
    fixture.push_texts(&["1", "2"]);
    let a = fixture.branch(&fixture.root(), "a");
    let b = fixture.branch(&fixture.root(), "b");
    fixture.checkout(&a);
    fixture.push_texts(&["a1"]);
    fixture.checkout(&b);
    fixture.push_texts(&["b1", "b2"]);

    let diff = fixture.tree.diff(&a, &b).unwrap();

    assert_eq!(diff.ancestor_id, fixture.root());
    assert_eq!(diff.common, 2);
    assert_eq!(diff.only_a.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["a1"]);
    assert_eq!(diff.only_b.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["b1", "b2"]);
}

#[test]
fn messages_in_the_history_of_a_branch_cannot_be_cleared() {
    let mut fixture = Fixture::new();
    let before = fixture.branch(&fixture.root(), "before the first message");
    fixture.push_texts(&["1"]);
    let root = fixture.root();
    fixture.tree.clear(&root, &clock()).unwrap();
    fixture.push_texts(&["1"]);
    let after = fixture.branch(&root, "after it");

    assert!(matches!(fixture.tree.clear(&root, &clock()), Err(TreeError::InUse { branches: 1, .. })));
    assert_eq!(fixture.history(&after), ["1"]);
    assert!(fixture.history(&before).is_empty());
}

#[test]
fn histories_and_copies_share_the_messages() {
    let mut fixture = Fixture::new();
    fixture.push_texts(&["1"]);
    let branch = fixture.branch(&fixture.root(), "x");
    let copy = fixture.tree.clone();
    fixture.checkout(&branch);
    fixture.push_texts(&["2"]);

    let original = &fixture.tree.root().thread.messages[0];
    assert!(Arc::ptr_eq(original, &fixture.tree.history()[0]));
    assert!(Arc::ptr_eq(original, &copy.root().thread.messages[0]));
    assert_eq!(copy.history_len(&branch), Ok(1));
    assert_eq!(fixture.tree.history_len(&branch), Ok(2));
}

#[test]
fn a_split_moves_the_later_messages_to_a_new_branch() {
    let mut fixture = Fixture::new();
    let root = fixture.root();
    fixture.push_texts(&["1"]);
    let early = fixture.branch(&root, "early");
    fixture.push_texts(&["2", "3"]);
    let late = fixture.branch(&root, "late");
    let before = fixture.history(&root);

    let cut = fixture.tree.split(&root, 1, None, &fixture.ids, &clock()).unwrap().unwrap().to_string();

    assert_eq!(fixture.history(&root), ["1"]);
    assert_eq!(fixture.history(&cut), before);
    assert_eq!(fixture.history(&late), before);
    assert_eq!(fixture.history(&early), ["1"]);
    assert_eq!(
        fixture.tree.root().children.iter().map(turntree::agents::tree::NodeId::as_str).collect::<Vec<_>>(),
        [&early, &cut]
    );
    assert_eq!(fixture.tree.node(&late).unwrap().parent_id.as_ref().unwrap().as_str(), cut);
    assert_eq!(fixture.tree.split(&root, 1, None, &fixture.ids, &clock()), Ok(None));
}

#[test]
fn a_shared_tree_is_safe_for_concurrent_writers() {
    let tree = Arc::new(SharedTree::new(Fixture::new().tree));

    std::thread::scope(|scope| {
        for worker in 0..4 {
            let tree = Arc::clone(&tree);
            scope.spawn(move || {
                for turn in 0..50 {
                    tree.lock().push([message(&format!("{worker}-{turn}"))], &clock());
                    let snapshot = tree.snapshot();
                    assert_eq!(snapshot.history().len(), snapshot.message_count());
                }
            });
        }
    });

    assert_eq!(tree.snapshot().message_count(), 200);
}

const THREAD: &str = r#"{"id":"thread_001","messages":[]}"#;

/// A document with the given nodes: id, parent, children, metadata.
fn document(root: &str, current: &str, nodes: &[(&str, &str, &str, &str)]) -> String {
    let nodes: Vec<String> = nodes
        .iter()
        .map(|(id, parent, children, metadata)| {
            format!(
                r#"{{"id":"{id}","parentId":{parent},"thread":{THREAD},"children":{children},"metadata":{metadata}}}"#
            )
        })
        .collect();
    format!(r#"{{"rootId":"{root}","currentId":"{current}","nodes":[{}]}}"#, nodes.join(","))
}

#[test]
fn the_sample_of_the_specification_loads() {
    // UAP-1.0 §13.5, with a message where it has an ellipsis.
    let user = r#"{"id":"m1","type":"user","content":[{"type":"text","text":"Hi"}],"timestamp":"2024-01-15T10:30:00.000Z"}"#;
    let text = format!(
        r#"{{
        "rootId": "node_root",
        "currentId": "node_branch1",
        "nodes": [
          {{ "id": "node_root", "parentId": null, "name": "main", "thread": {{ "id": "thread_001", "messages": [{user}] }},
            "children": ["node_branch1"], "metadata": {{}} }},
          {{ "id": "node_branch1", "parentId": "node_root", "name": "alternative",
            "thread": {{ "id": "thread_002", "messages": [] }}, "children": [], "metadata": {{}} }}
        ]
      }}"#
    );

    let tree = read(&text);

    assert_eq!(tree.current().name.as_deref(), Some("alternative"));
    assert_eq!(tree.history().len(), 1);
    assert_eq!(tree.current().branch_point, Some(1), "no branch point: the whole parent");
    assert_eq!(read(&write(&tree)), tree);
}

#[test]
fn a_tree_has_the_json_of_the_specification_with_each_message_once() {
    let mut fixture = Fixture::new();
    fixture.push_texts(&["said once"]);
    let branch = fixture.branch(&fixture.root(), "x");
    let root = fixture.root();

    let text = write(&fixture.tree);

    assert_eq!(text.matches("\"text\":\"said once\"").count(), 1);
    assert!(text.starts_with(&format!(
        r#"{{"rootId":"{root}","currentId":"{root}","nodes":[{{"id":"{root}","parentId":null,"name":"main","thread":{{"#
    )));
    assert!(text.contains(&format!(r#""children":["{branch}"],"metadata":{{}}}}"#)));
    assert!(text.ends_with(r#""children":[],"metadata":{"branchPoint":1}}]}"#));
}

#[test]
fn unknown_members_round_trip_at_every_level() {
    let text = r#"{"rootId":"r","currentId":"r","nodes":[{"id":"r","parentId":null,"thread":{"id":"t","messages":[],"createdAt":"2024-01-15T10:30:00.000Z","updatedAt":"2024-01-15T10:30:00.000Z","mood":1.50},"children":[],"metadata":{"x":[1e400]},"colour":"green"}],"season":{"a":null}}"#;

    assert_eq!(write(&read(text)), text);
}

#[test]
fn optional_members_may_be_missing() {
    let text =
        format!(r#"{{"nodes":[{{"children":[],"id":"r","thread":{THREAD}}}],"currentId":"r","rootId":"r"}}"#);

    let tree = read(&text);

    assert_eq!(tree.root().parent_id, None);
    assert_eq!(tree.root().name, None);
}

const ROOT: (&str, &str, &str, &str) = ("r", "null", "[\"a\"]", "{}");
const LEAF: (&str, &str, &str, &str) = ("a", "\"r\"", "[]", "{}");

/// Checks that a document is refused with this JSON pointer and a message that contains `rule`.
#[track_caller]
fn assert_refused(document: &str, pointer: &str, rule: &str) {
    let error = ThreadTree::from_json(document, &Limits::default()).unwrap_err();

    assert_eq!(error.pointer(), pointer, "{error}");
    assert!(error.message.contains(rule), "{error}");
    assert_eq!(error.kind, ParseErrorKind::Shape);
    let nested = serde_json::from_str::<ThreadTree>(document).unwrap_err();
    assert!(nested.to_string().contains(pointer), "{nested}");
}

#[test]
fn refuses_unknown_root_and_current_ids() {
    assert_refused(&document("x", "r", &[ROOT, LEAF]), "/rootId", "no node has the id \"x\"");
    assert_refused(&document("r", "x", &[ROOT, LEAF]), "/currentId", "no node has the id \"x\"");
    assert_refused(&document("r", "r", &[]), "/rootId", "no node has the id");
}

#[test]
fn refuses_duplicate_and_empty_ids() {
    assert_refused(&document("r", "r", &[ROOT, LEAF, LEAF]), "/nodes/2/id", "unique");
    assert_refused(&document("", "", &[("", "null", "[]", "{}")]), "/nodes/0/id", "empty");
}

#[test]
fn refuses_a_tree_with_two_roots() {
    let second_root = ("b", "null", "[]", "{}");
    assert_refused(&document("r", "r", &[ROOT, LEAF, second_root]), "/nodes/2/parentId", "only the root");
}

#[test]
fn refuses_a_root_with_a_parent() {
    assert_refused(&document("a", "r", &[ROOT, LEAF]), "/nodes/0/parentId", "only the root");
}

#[test]
fn refuses_unknown_parents_and_parents_that_do_not_list_the_child() {
    let unknown_parent = ("b", "\"x\"", "[]", "{}");
    assert_refused(&document("r", "r", &[ROOT, LEAF, unknown_parent]), "/nodes/2/parentId", "\"x\"");
    let unlisted = ("b", "\"a\"", "[]", "{}");
    assert_refused(&document("r", "r", &[ROOT, LEAF, unlisted]), "/nodes/2/parentId", "does not list");
}

#[test]
fn refuses_unknown_and_duplicate_children() {
    let unknown_child = ("r", "null", "[\"a\",\"x\"]", "{}");
    assert_refused(&document("r", "r", &[unknown_child, LEAF]), "/nodes/0/children/1", "\"x\"");
    let duplicate_child = ("r", "null", "[\"a\",\"a\"]", "{}");
    assert_refused(&document("r", "r", &[duplicate_child, LEAF]), "/nodes/0/children/1", "twice");
}

#[test]
fn refuses_children_with_another_parent() {
    let claims_sibling = ("a", "\"r\"", "[\"b\"]", "{}");
    let sibling = ("b", "\"r\"", "[]", "{}");
    assert_refused(&document("r", "r", &[ROOT, claims_sibling, sibling]), "/nodes/1/children/0", "parentId");
    let claims_root = ("a", "\"r\"", "[\"r\"]", "{}");
    assert_refused(&document("r", "r", &[ROOT, claims_root]), "/nodes/1/children/0", "parentId");
}

#[test]
fn refuses_cycles() {
    let cycle = [ROOT, LEAF, ("b", "\"c\"", "[\"c\"]", "{}"), ("c", "\"b\"", "[\"b\"]", "{}")];
    assert_refused(&document("r", "r", &cycle), "/nodes/2/parentId", "cycle");
    let own_parent = ("b", "\"b\"", "[\"b\"]", "{}");
    assert_refused(&document("r", "r", &[ROOT, LEAF, own_parent]), "/nodes/2/parentId", "cycle");
}

#[test]
fn refuses_branch_points_that_are_not_numbers_or_past_the_end() {
    for (metadata, rule) in [
        ("{\"branchPoint\":1}", "0 message"),
        ("{\"branchPoint\":\"x\"}", "number"),
        ("{\"branchPoint\":-1}", "number"),
    ] {
        let node = ("a", "\"r\"", "[]", metadata);
        assert_refused(&document("r", "r", &[ROOT, node]), "/nodes/1/metadata/branchPoint", rule);
    }
}

#[test]
fn limits_are_checked_before_parsing() {
    let limits = Limits { values: 3, ..Limits::default() };
    let error =
        ThreadTree::from_json(&document("r", "r", &[("r", "null", "[]", "{}")]), &limits).unwrap_err();

    assert_eq!(error.kind, ParseErrorKind::Limit);
}

#[test]
fn long_histories_preserve_the_order_of_messages() {
    let mut fixture = Fixture::new();
    let (mut tip, mut expected) = (fixture.root(), Vec::new());
    for length in [5_000, 2_100, 3, 4_000] {
        let texts: Vec<String> = (0..length).map(|place| format!("{tip}-{place}")).collect();
        fixture.tree.push_to(&tip, texts.iter().map(|text| message(text)), &clock()).unwrap();
        let branch = fixture.branch(&tip, "next");
        fixture.tree.push_to(&tip, [message("later")], &clock()).unwrap();
        expected.extend(texts);
        tip = branch;
    }

    assert_eq!(fixture.history(&tip), expected);
}

#[test]
fn a_chain_of_20_000_nodes_does_not_overflow_the_stack() {
    let mut fixture = Fixture::new();
    let mut tip = fixture.root();
    for place in 0..20_000 {
        tip = fixture.branch(&tip, "n");
        fixture.tree.push_to(&tip, [message(&place.to_string())], &clock()).unwrap();
    }
    fixture.checkout(&tip);

    assert_eq!(fixture.tree.history().len(), 20_000);
    assert_eq!(read(&write(&fixture.tree)), fixture.tree);
    assert!(fixture.tree.draw(20).to_string().lines().count() == 21);
}

#[test]
fn a_drawing_shows_names_first_messages_and_the_current_node() {
    let mut fixture = Fixture::new();
    fixture.push_texts(&["What is a tree?", "A graph"]);
    let french = fixture.branch(&fixture.root(), "in-french");
    fixture.push_texts(&["Thanks\u{1b}[31m,\n  really"]);
    let nameless = fixture.tree.branch(&fixture.root(), None, &fixture.ids, &clock()).unwrap();
    fixture.checkout(&french);
    fixture.push_texts(&["En <b>français</b> ?"]);
    fixture.branch(&french, "deeper");

    let drawing = fixture.tree.draw(10);

    assert_eq!(
        drawing.to_string(),
        format!(
            "main · 3 messages · What is a tree?\n\
             ├─ in-french (after 2) · 1 message · En <b>français</b> ?  ← current\n\
             │  └─ deeper · 0 messages\n\
             └─ {} · 0 messages",
            &nameless.as_str()[..8]
        )
    );
    assert!(drawing.html().contains("<b>in-french</b>"));
    assert!(drawing.html().contains("En &lt;b&gt;français&lt;/b&gt; ?"));
    assert_eq!(
        fixture.tree.draw(1).to_string(),
        "main · 3 messages · What is a tree?\n… 3 more node(s); current: in-french"
    );
    assert!(!fixture.tree.draw(0).to_string().contains('\u{1b}'));
}
