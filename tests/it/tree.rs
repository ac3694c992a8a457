//! Trees of threads: branch, checkout, merge, history, and their JSON. UAP-1.0 §7 and §13.2.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use turntree::agents::thread::{SharedTree, ThreadTree, TreeError};
use turntree::core::ids::{CountingIds, IdSource as _};
use turntree::core::json::ParseErrorKind;
use turntree::core::limits::Limits;
use turntree::message::{Message, Thread};

use crate::support_agents::clock;

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
            "circle",
            document(
                "r",
                "r",
                &[root, leaf, ("b", "\"c\"", "[\"c\"]", "{}"), ("c", "\"b\"", "[\"b\"]", "{}")],
            ),
            "/nodes/2/parentId",
            "circle",
        ),
        (
            "own parent",
            document("r", "r", &[root, leaf, ("b", "\"b\"", "[\"b\"]", "{}")]),
            "/nodes/2/parentId",
            "circle",
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

/// The plainest tree there is: every node remembers a copy of what was said before it started.
#[derive(Default)]
struct Plain {
    before: Vec<Vec<String>>,
    own: Vec<Vec<String>>,
    parent: Vec<usize>,
    current: usize,
}

impl Plain {
    fn new() -> Self {
        Self { before: vec![vec![]], own: vec![vec![]], parent: vec![0], current: 0 }
    }

    fn history(&self, node: usize) -> Vec<String> {
        [self.before[node].clone(), self.own[node].clone()].concat()
    }

    fn branch(&mut self, from: usize) {
        self.before.push(self.history(from));
        self.own.push(vec![]);
        self.parent.push(from);
    }

    fn is_above(&self, node: usize, mut below: usize) -> bool {
        while below != node && below != 0 {
            below = self.parent[below];
        }
        below == node
    }

    fn lacking(&self, source: usize, target: usize) -> Vec<String> {
        let known = self.history(target);
        self.history(source).into_iter().filter(|id| !known.contains(id)).collect()
    }

    fn merge(&mut self, source: usize, target: usize) {
        if !self.is_above(source, target) {
            let lacking = self.lacking(source, target);
            self.own[target].extend(lacking);
        }
    }
}

/// What is done to a tree; numbers choose nodes.
#[derive(Debug, Clone)]
enum Step {
    Branch(usize),
    Say(u8),
    SayTo(usize, u8),
    Checkout(usize),
    Merge(usize, usize),
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 0..1000_usize;
    let step = prop_oneof![
        3 => node().prop_map(Step::Branch),
        4 => (0..5_u8).prop_map(Step::Say),
        2 => (node(), 0..5_u8).prop_map(|(node, count)| Step::SayTo(node, count)),
        3 => node().prop_map(Step::Checkout),
        2 => (node(), node()).prop_map(|(source, target)| Step::Merge(source, target)),
        1 => Just(Step::Reload),
    ];
    proptest::collection::vec(step, 0..60)
}

/// The tree and its model side by side.
struct Pair {
    tree: ThreadTree,
    plain: Plain,
    ids: CountingIds,
    nodes: Vec<String>,
}

impl Pair {
    fn after(steps: &[Step]) -> Self {
        let ids = CountingIds::default();
        let tree = ThreadTree::new(Thread::new([].into_iter().collect(), &ids, &clock()), &ids);
        let nodes = vec![tree.root().id.to_string()];
        let mut pair = Self { tree, plain: Plain::new(), ids, nodes };
        for step in steps {
            pair.take(step);
        }
        pair
    }

    fn messages(&self, count: u8) -> Vec<Arc<Message>> {
        (0..count).map(|_| message(&self.ids.string())).collect()
    }

    fn take(&mut self, step: &Step) {
        let length = self.nodes.len();
        match *step {
            Step::Branch(from) => {
                let from = from % length;
                let id = self.tree.branch(&self.nodes[from], None, &self.ids, &clock()).unwrap();
                self.nodes.push(id.to_string());
                self.plain.branch(from);
            }
            Step::Say(count) => {
                let messages = self.messages(count);
                let said = messages.iter().map(|message| message.id.clone());
                self.plain.own[self.plain.current].extend(said);
                self.tree.push(messages, &clock());
            }
            Step::SayTo(node, count) => {
                let (node, messages) = (node % length, self.messages(count));
                self.plain.own[node].extend(messages.iter().map(|message| message.id.clone()));
                self.tree.push_to(&self.nodes[node], messages, &clock()).unwrap();
            }
            Step::Checkout(node) => {
                self.plain.current = node % length;
                self.tree.checkout(&self.nodes[node % length]).unwrap();
            }
            Step::Merge(source, target) => {
                let (source, target) = (source % length, target % length);
                self.plain.merge(source, target);
                self.tree.merge(&self.nodes[source], &self.nodes[target], &clock()).unwrap();
            }
            Step::Reload => self.tree = read(&write(&self.tree)),
        }
    }
}

fn ids_of<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<String> {
    messages.into_iter().map(|message| message.id.clone()).collect()
}

proptest! {
    #[test]
    fn history_is_what_a_plain_copy_of_the_past_would_be(steps in steps()) {
        let pair = Pair::after(&steps);

        prop_assert_eq!(pair.tree.current().id.as_str(), &pair.nodes[pair.plain.current]);
        prop_assert_eq!(ids_of(&pair.tree.history()), pair.plain.history(pair.plain.current));
        prop_assert_eq!(pair.tree.node_count(), pair.nodes.len());
        for (place, id) in pair.nodes.iter().enumerate() {
            let history = pair.tree.history_of(id).unwrap();
            prop_assert_eq!(pair.tree.history_len(id), Ok(history.len()));
            prop_assert_eq!(ids_of(&history), pair.plain.history(place));
            let node = pair.tree.node(id).unwrap();
            prop_assert_eq!(ids_of(&node.thread.messages), pair.plain.own[place].clone());
            let parent = node.parent_id.as_ref().map(ToString::to_string);
            prop_assert_eq!(parent, (place > 0).then(|| pair.nodes[pair.plain.parent[place]].clone()));
        }
    }

    #[test]
    fn children_stand_in_the_order_they_were_made_and_leaves_have_none(steps in steps()) {
        let pair = Pair::after(&steps);

        let mut children: HashMap<usize, Vec<String>> = HashMap::new();
        for place in 1..pair.nodes.len() {
            children.entry(pair.plain.parent[place]).or_default().push(pair.nodes[place].clone());
        }
        for (place, id) in pair.nodes.iter().enumerate() {
            let found: Vec<_> = pair.tree.node(id).unwrap().children.iter().map(ToString::to_string).collect();
            prop_assert_eq!(found, children.get(&place).cloned().unwrap_or_default());
        }
        let leaves: Vec<_> = pair.tree.leaves().map(|node| node.id.to_string()).collect();
        let childless = pair.nodes.iter().enumerate().filter(|(place, _)| !children.contains_key(place));
        prop_assert_eq!(leaves, childless.map(|(_, id)| id.clone()).collect::<Vec<_>>());
    }

    #[test]
    fn reading_what_was_written_gives_the_same_tree_and_text(steps in steps()) {
        let tree = Pair::after(&steps).tree;
        let text = write(&tree);

        let again = read(&text);

        prop_assert_eq!(&again, &tree);
        prop_assert_eq!(write(&again), text);
    }

    #[test]
    fn the_order_of_nodes_in_a_document_does_not_matter(steps in steps(), turn in 0..50_usize) {
        let tree = Pair::after(&steps).tree;
        let mut document: serde_json::Value = serde_json::from_str(&write(&tree)).unwrap();
        let nodes = document["nodes"].as_array_mut().unwrap();
        let turn = turn % nodes.len();
        nodes.rotate_left(turn);

        prop_assert_eq!(read(&document.to_string()), tree);
    }

    #[test]
    fn merging_twice_is_merging_once(steps in steps(), source in 0..1000_usize, target in 0..1000_usize) {
        let mut pair = Pair::after(&steps);
        let length = pair.nodes.len();
        let (source, target) = (pair.nodes[source % length].clone(), pair.nodes[target % length].clone());
        pair.tree.merge(&source, &target, &clock()).unwrap();
        let once = pair.tree.clone();

        let added = pair.tree.merge(&source, &target, &clock());

        prop_assert_eq!(added, Ok(0));
        prop_assert_eq!(pair.tree, once);
    }

    #[test]
    fn diff_is_what_merging_either_way_would_bring(steps in steps(), a in 0..1000_usize, b in 0..1000_usize) {
        let pair = Pair::after(&steps);
        let (a, b) = (a % pair.nodes.len(), b % pair.nodes.len());

        let diff = pair.tree.diff(&pair.nodes[a], &pair.nodes[b]).unwrap();
        let mirrored = pair.tree.diff(&pair.nodes[b], &pair.nodes[a]).unwrap();

        prop_assert_eq!(ids_of(&diff.only_a), pair.plain.lacking(a, b));
        prop_assert_eq!(ids_of(&diff.only_b), pair.plain.lacking(b, a));
        prop_assert_eq!((&mirrored.only_a, &mirrored.only_b), (&diff.only_b, &diff.only_a));
        let ancestor = pair.nodes.iter().position(|id| *id == diff.ancestor_id).unwrap();
        prop_assert!(pair.plain.is_above(ancestor, a) && pair.plain.is_above(ancestor, b));
        let below = (0..pair.nodes.len()).filter(|node| pair.plain.parent[*node] == ancestor && *node != ancestor);
        prop_assert!(!below.into_iter().any(|node| pair.plain.is_above(node, a) && pair.plain.is_above(node, b)));
    }

    #[test]
    fn a_snapshot_does_not_change(before in steps(), after in steps()) {
        let mut pair = Pair::after(&before);
        let snapshot = pair.tree.clone();
        let text = write(&snapshot);

        for step in &after {
            pair.take(step);
        }

        prop_assert_eq!(write(&snapshot), text);
    }

    #[test]
    fn no_document_makes_the_reader_panic(mut steps in steps(), place in 0..4000_usize, junk in "[a-z0-9\"\\[\\]{},:]{0,3}") {
        steps.truncate(12);
        let text = write(&Pair::after(&steps).tree);
        let place = place % text.len();
        if let (Some(head), Some(tail)) = (text.get(..place), text.get(place + 1..)) {
            let damaged = format!("{head}{junk}{tail}");
            if let Ok(tree) = ThreadTree::from_json(&damaged, &Limits::default()) {
                prop_assert_eq!(read(&write(&tree)), tree);
            }
        }
    }
}
