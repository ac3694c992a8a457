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

/// A tree with the ids it was made with, so that a test reads as a conversation.
struct World {
    tree: ThreadTree,
    ids: CountingIds,
}

impl World {
    fn new() -> Self {
        let ids = CountingIds::default();
        Self { tree: ThreadTree::empty(&ids, &clock()), ids }
    }

    /// Adds messages to the current node; each has its text as its id too.
    fn say(&mut self, texts: &[&str]) {
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
fn uap_34_history_goes_from_the_root_to_the_current_node() {
    let mut world = World::new();
    world.say(&["root"]);
    for line in [["A", "B"], ["C", "D"]] {
        let mut from = world.root();
        for name in line {
            from = world.branch(&from, name);
            world.checkout(&from);
            world.say(&[name]);
        }
        assert_eq!(ids_of(&world.tree.history()), ["root", line[0], line[1]]);
    }
}

#[test]
fn uap_34_what_a_parent_says_after_a_branch_is_not_in_the_branch() {
    let mut world = World::new();
    world.say(&["Create a web server", "Done"]);
    let other = world.branch(&world.root(), "alternative");
    world.say(&["Add middleware"]);
    world.checkout(&other);
    world.say(&["Use Express instead"]);

    assert_eq!(world.history(&other), ["Create a web server", "Done", "Use Express instead"]);
    assert_eq!(world.history(&world.root()), ["Create a web server", "Done", "Add middleware"]);
    assert_eq!(world.tree.history_len(&other), Ok(3));
}

#[test]
fn uap_35_ids_are_uuids_of_version_4() {
    let mut world = World::new();
    let branch = world.branch(&world.root(), "x");

    for id in [world.root(), branch] {
        assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 4);
    }
}

#[test]
fn uap_36_a_branch_hangs_under_its_node_and_is_not_checked_out() {
    let mut world = World::new();
    let branch = world.branch(&world.root(), "x");

    let node = world.tree.node(&branch).unwrap();
    assert_eq!(node.parent_id.as_ref().map(ToString::to_string), Some(world.root()));
    assert_eq!(node.name.as_deref(), Some("x"));
    assert_eq!(world.tree.root().children.iter().map(ToString::to_string).collect::<Vec<_>>(), [branch]);
    assert_eq!(world.tree.current().id.as_str(), world.root());
}

#[test]
fn uap_37_messages_go_to_the_node_that_was_checked_out() {
    let mut world = World::new();
    let branch = world.branch(&world.root(), "x");
    world.checkout(&branch);
    world.say(&["here"]);

    assert_eq!(world.tree.current().thread.messages.len(), 1);
    assert!(world.tree.root().thread.messages.is_empty());
}

#[test]
fn an_unknown_id_is_named() {
    let mut world = World::new();
    let error = TreeError::UnknownNode { id: "nobody".to_owned() };
    assert!(error.to_string().contains("\"nobody\""));
    let unknown = Err(error);

    assert_eq!(world.tree.checkout("nobody"), unknown);
    assert_eq!(world.tree.merge("nobody", &world.root(), &clock()).map(|_| ()), unknown);
    assert_eq!(world.tree.merge(&world.root(), "nobody", &clock()).map(|_| ()), unknown);
    assert_eq!(world.tree.branch("nobody", None, &world.ids, &clock()).map(|_| ()), unknown);
    assert_eq!(world.tree.diff("nobody", "nobody").map(|_| ()), unknown);
    assert_eq!(world.tree.history_of("nobody").map(|_| ()), unknown);
}

#[test]
fn merge_brings_what_the_target_lacks_and_records_it() {
    let mut world = World::new();
    world.say(&["1"]);
    let early = world.branch(&world.root(), "early");
    world.say(&["2"]);
    let late = world.branch(&world.root(), "late");
    world.checkout(&early);
    world.say(&["e"]);
    world.checkout(&late);
    world.say(&["l"]);

    let added = world.tree.merge(&late, &early, &clock());

    assert_eq!(added, Ok(2));
    assert_eq!(world.history(&early), ["1", "e", "2", "l"]);
    assert_eq!(world.history(&late), ["1", "2", "l"]);
    assert_eq!(world.tree.current().id.as_str(), late);
    let merged = world.tree.node(&early).unwrap().metadata.get("mergedFrom").unwrap();
    assert_eq!(merged.get(), format!("[\"{late}\"]"));
    assert!(world.tree.diff(&late, &early).unwrap().only_a.is_empty());
}

#[test]
fn merging_a_node_or_its_ancestor_into_it_changes_nothing() {
    let mut world = World::new();
    let branch = world.branch(&world.root(), "x");
    world.say(&["later"]);
    let before = world.tree.clone();

    assert_eq!(world.tree.merge(&world.root(), &branch, &clock()), Ok(0));
    assert_eq!(world.tree.merge(&branch, &branch, &clock()), Ok(0));

    assert_eq!(world.tree, before);
}

#[test]
fn diff_tells_the_ancestor_and_what_each_side_has_alone() {
    let mut world = World::new();
    world.say(&["1", "2"]);
    let a = world.branch(&world.root(), "a");
    let b = world.branch(&world.root(), "b");
    world.checkout(&a);
    world.say(&["a1"]);
    world.checkout(&b);
    world.say(&["b1", "b2"]);

    let diff = world.tree.diff(&a, &b).unwrap();

    assert_eq!(diff.ancestor_id, world.root());
    assert_eq!(diff.common, 2);
    assert_eq!(diff.only_a.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["a1"]);
    assert_eq!(diff.only_b.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["b1", "b2"]);
}

#[test]
fn messages_that_a_branch_needs_cannot_be_cleared() {
    let mut world = World::new();
    let before = world.branch(&world.root(), "before the first message");
    world.say(&["1"]);
    let root = world.root();
    world.tree.clear(&root, &clock()).unwrap();
    world.say(&["1"]);
    let after = world.branch(&root, "after it");

    assert!(matches!(world.tree.clear(&root, &clock()), Err(TreeError::InUse { branches: 1, .. })));
    assert_eq!(world.history(&after), ["1"]);
    assert!(world.history(&before).is_empty());
}

#[test]
fn histories_and_copies_share_the_messages() {
    let mut world = World::new();
    world.say(&["1"]);
    let branch = world.branch(&world.root(), "x");
    let copy = world.tree.clone();
    world.checkout(&branch);
    world.say(&["2"]);

    let original = &world.tree.root().thread.messages[0];
    assert!(Arc::ptr_eq(original, &world.tree.history()[0]));
    assert!(Arc::ptr_eq(original, &copy.root().thread.messages[0]));
    assert_eq!(copy.history_len(&branch), Ok(1));
    assert_eq!(world.tree.history_len(&branch), Ok(2));
}

#[test]
fn a_split_keeps_what_it_cuts_off_as_a_branch() {
    let mut world = World::new();
    let root = world.root();
    world.say(&["1"]);
    let early = world.branch(&root, "early");
    world.say(&["2", "3"]);
    let late = world.branch(&root, "late");
    let before = world.history(&root);

    let cut = world.tree.split(&root, 1, None, &world.ids, &clock()).unwrap().unwrap().to_string();

    assert_eq!(world.history(&root), ["1"]);
    assert_eq!(world.history(&cut), before);
    assert_eq!(world.history(&late), before);
    assert_eq!(world.history(&early), ["1"]);
    assert_eq!(
        world.tree.root().children.iter().map(turntree::agents::tree::NodeId::as_str).collect::<Vec<_>>(),
        [&early, &cut]
    );
    assert_eq!(world.tree.node(&late).unwrap().parent_id.as_ref().unwrap().as_str(), cut);
    assert_eq!(world.tree.split(&root, 1, None, &world.ids, &clock()), Ok(None));
}

#[test]
fn a_tree_has_room_for_threads() {
    let tree = Arc::new(SharedTree::new(World::new().tree));

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
fn a_tree_is_written_as_the_specification_says_and_each_message_once() {
    let mut world = World::new();
    world.say(&["said once"]);
    let branch = world.branch(&world.root(), "x");
    let root = world.root();

    let text = write(&world.tree);

    assert_eq!(text.matches("\"text\":\"said once\"").count(), 1);
    assert!(text.starts_with(&format!(
        r#"{{"rootId":"{root}","currentId":"{root}","nodes":[{{"id":"{root}","parentId":null,"name":"main","thread":{{"#
    )));
    assert!(text.contains(&format!(r#""children":["{branch}"],"metadata":{{}}}}"#)));
    assert!(text.ends_with(r#""children":[],"metadata":{"branchPoint":1}}]}"#));
}

#[test]
fn unknown_members_survive_at_every_level() {
    let text = r#"{"rootId":"r","currentId":"r","nodes":[{"id":"r","parentId":null,"thread":{"id":"t","messages":[],"createdAt":"2024-01-15T10:30:00.000Z","updatedAt":"2024-01-15T10:30:00.000Z","mood":1.50},"children":[],"metadata":{"x":[1e400]},"colour":"green"}],"season":{"a":null}}"#;

    assert_eq!(write(&read(text)), text);
}

#[test]
fn members_that_may_be_missing_may_be_missing() {
    let text =
        format!(r#"{{"nodes":[{{"children":[],"id":"r","thread":{THREAD}}}],"currentId":"r","rootId":"r"}}"#);

    let tree = read(&text);

    assert_eq!(tree.root().parent_id, None);
    assert_eq!(tree.root().name, None);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_is_no_tree_is_refused_with_its_place() {
    let root = ("r", "null", "[\"a\"]", "{}");
    let leaf = ("a", "\"r\"", "[]", "{}");
    let cases = [
        ("no root", document("x", "r", &[root, leaf]), "/rootId", "no node has the id \"x\""),
        ("no current", document("r", "x", &[root, leaf]), "/currentId", "no node has the id \"x\""),
        ("no nodes", document("r", "r", &[]), "/rootId", "no node has the id"),
        ("same id", document("r", "r", &[root, leaf, leaf]), "/nodes/2/id", "unique"),
        ("empty id", document("", "", &[("", "null", "[]", "{}")]), "/nodes/0/id", "empty"),
        (
            "two roots",
            document("r", "r", &[root, leaf, ("b", "null", "[]", "{}")]),
            "/nodes/2/parentId",
            "only the root",
        ),
        ("root with parent", document("a", "r", &[root, leaf]), "/nodes/0/parentId", "only the root"),
        (
            "parent missing",
            document("r", "r", &[root, leaf, ("b", "\"x\"", "[]", "{}")]),
            "/nodes/2/parentId",
            "\"x\"",
        ),
        (
            "orphan",
            document("r", "r", &[root, leaf, ("b", "\"a\"", "[]", "{}")]),
            "/nodes/2/parentId",
            "does not list",
        ),
        (
            "child missing",
            document("r", "r", &[("r", "null", "[\"a\",\"x\"]", "{}"), leaf]),
            "/nodes/0/children/1",
            "\"x\"",
        ),
        (
            "child twice",
            document("r", "r", &[("r", "null", "[\"a\",\"a\"]", "{}"), leaf]),
            "/nodes/0/children/1",
            "twice",
        ),
        (
            "not its child",
            document("r", "r", &[root, ("a", "\"r\"", "[\"b\"]", "{}"), ("b", "\"r\"", "[]", "{}")]),
            "/nodes/1/children/0",
            "parentId",
        ),
        (
            "root as child",
            document("r", "r", &[root, ("a", "\"r\"", "[\"r\"]", "{}")]),
            "/nodes/1/children/0",
            "parentId",
        ),
        (
            "cycle",
            document(
                "r",
                "r",
                &[root, leaf, ("b", "\"c\"", "[\"c\"]", "{}"), ("c", "\"b\"", "[\"b\"]", "{}")],
            ),
            "/nodes/2/parentId",
            "cycle",
        ),
        (
            "own parent",
            document("r", "r", &[root, leaf, ("b", "\"b\"", "[\"b\"]", "{}")]),
            "/nodes/2/parentId",
            "cycle",
        ),
        (
            "point past the end",
            document("r", "r", &[root, ("a", "\"r\"", "[]", "{\"branchPoint\":1}")]),
            "/nodes/1/metadata/branchPoint",
            "0 message",
        ),
        (
            "no point",
            document("r", "r", &[root, ("a", "\"r\"", "[]", "{\"branchPoint\":\"x\"}")]),
            "/nodes/1/metadata/branchPoint",
            "number",
        ),
        (
            "negative point",
            document("r", "r", &[root, ("a", "\"r\"", "[]", "{\"branchPoint\":-1}")]),
            "/nodes/1/metadata/branchPoint",
            "number",
        ),
    ];
    for (case, text, place, rule) in cases {
        let error = ThreadTree::from_json(&text, &Limits::default()).unwrap_err();

        assert_eq!(error.pointer(), place, "{case}: {error}");
        assert!(error.message.contains(rule), "{case}: {error}");
        assert_eq!(error.kind, ParseErrorKind::Shape, "{case}");
        let nested = serde_json::from_str::<ThreadTree>(&text).unwrap_err();
        assert!(nested.to_string().contains(place), "{case}: {nested}");
    }
}

#[test]
fn limits_are_checked_before_anything_is_read() {
    let limits = Limits { values: 3, ..Limits::default() };
    let error =
        ThreadTree::from_json(&document("r", "r", &[("r", "null", "[]", "{}")]), &limits).unwrap_err();

    assert_eq!(error.kind, ParseErrorKind::Limit);
}

#[test]
fn long_histories_are_joined_in_order() {
    let mut world = World::new();
    let (mut tip, mut expected) = (world.root(), Vec::new());
    for length in [5_000, 2_100, 3, 4_000] {
        let texts: Vec<String> = (0..length).map(|place| format!("{tip}-{place}")).collect();
        world.tree.push_to(&tip, texts.iter().map(|text| message(text)), &clock()).unwrap();
        let branch = world.branch(&tip, "next");
        world.tree.push_to(&tip, [message("later")], &clock()).unwrap();
        expected.extend(texts);
        tip = branch;
    }

    assert_eq!(world.history(&tip), expected);
}

#[test]
fn a_chain_of_many_nodes_costs_no_stack() {
    let mut world = World::new();
    let mut tip = world.root();
    for place in 0..20_000 {
        tip = world.branch(&tip, "n");
        world.tree.push_to(&tip, [message(&place.to_string())], &clock()).unwrap();
    }
    world.checkout(&tip);

    assert_eq!(world.tree.history().len(), 20_000);
    assert_eq!(read(&write(&world.tree)), world.tree);
    assert!(world.tree.draw(20).to_string().lines().count() == 21);
}

#[test]
fn a_drawing_shows_names_first_words_and_the_current_node() {
    let mut world = World::new();
    world.say(&["What is a tree?", "A graph"]);
    let french = world.branch(&world.root(), "in-french");
    world.say(&["Thanks\u{1b}[31m,\n  really"]);
    let nameless = world.tree.branch(&world.root(), None, &world.ids, &clock()).unwrap();
    world.checkout(&french);
    world.say(&["En <b>français</b> ?"]);
    world.branch(&french, "deeper");

    let drawing = world.tree.draw(10);

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
        world.tree.draw(1).to_string(),
        "main · 3 messages · What is a tree?\n… 3 more node(s); current: in-french"
    );
    assert!(!world.tree.draw(0).to_string().contains('\u{1b}'));
}
