//! Cost of branch, checkout, history and JSON of trees with 10 000 nodes and 100 000 messages.

#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use turntree::agents::tree::ThreadTree;
use turntree::core::ids::RandomIds;
use turntree::core::limits::Limits;
use turntree::core::time::SystemClock;
use turntree::message::Message;

const NODES: usize = 10_000;
const MESSAGES: usize = 10;

fn messages(count: usize) -> Vec<Arc<Message>> {
    let text = "The forecast for Tokyo says rain until noon, then clouds over Shinjuku. ".repeat(3);
    (0..count).map(|_| Arc::new(Message::user(text.clone(), &RandomIds, &SystemClock))).collect()
}

/// Builds a tree; `parent` returns the index of the parent of a node. The last node is current.
fn tree(nodes: usize, each: usize, parent: impl Fn(usize) -> usize) -> ThreadTree {
    let mut tree = ThreadTree::empty(&RandomIds, &SystemClock);
    tree.push(messages(each), &SystemClock);
    let mut ids = vec![tree.root().id.clone()];
    for node in 1..nodes {
        let from = ids.get(parent(node)).unwrap().clone();
        let id = tree.branch(from.as_str(), None, &RandomIds, &SystemClock).unwrap();
        tree.push_to(id.as_str(), messages(each), &SystemClock).unwrap();
        ids.push(id);
    }
    tree.checkout(ids.last().unwrap().as_str()).unwrap();
    tree
}

fn operations(criterion: &mut Criterion, name: &str, tree: &ThreadTree) {
    let mut group = criterion.benchmark_group(format!("tree/{name}"));
    let (root, tip) = (tree.root().id.to_string(), tree.current().id.to_string());
    group.bench_function("branch", |bencher| {
        let mut tree = tree.clone();
        bencher.iter(|| tree.branch(black_box(&tip), None, &RandomIds, &SystemClock).unwrap());
    });
    group.bench_function("branch_beside_a_snapshot", |bencher| {
        bencher.iter_batched(
            || tree.clone(),
            |mut tree| {
                tree.branch(black_box(&tip), None, &RandomIds, &SystemClock).unwrap();
                tree
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("checkout", |bencher| {
        let mut tree = tree.clone();
        bencher.iter(|| {
            tree.checkout(black_box(&root)).unwrap();
            tree.checkout(black_box(&tip)).unwrap();
        });
    });
    group.bench_function("append", |bencher| {
        let turn = messages(2);
        bencher.iter_batched_ref(
            || tree.clone(),
            |tree| tree.push(turn.iter().cloned(), &SystemClock),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("snapshot", |bencher| bencher.iter(|| black_box(tree).clone()));
    group.bench_function("history", |bencher| bencher.iter(|| black_box(tree).history()));
    group.bench_function("draw_40", |bencher| bencher.iter(|| black_box(tree).draw(40).to_string()));
    group.finish();
}

fn shapes(criterion: &mut Criterion) {
    let bushy = tree(NODES, MESSAGES, |node| (node - 1) / 10);
    operations(criterion, "ten_branches_a_node", &bushy);
    operations(criterion, "one_chain", &tree(NODES, MESSAGES, |node| node - 1));
    operations(criterion, "one_node_of_10_000_messages", &tree(1, 10_000, |_| 0));
    operations(criterion, "three_nodes_of_3_333_messages", &tree(3, 3_333, |node| node - 1));

    let text = serde_json::to_string(&bushy).unwrap();
    let mut group = criterion.benchmark_group("tree/json");
    group.sample_size(20).throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("write", |bencher| {
        bencher.iter(|| serde_json::to_string(black_box(&bushy)).unwrap())
    });
    group.bench_function("read", |bencher| {
        bencher.iter(|| ThreadTree::from_json(black_box(&text), &Limits::default()).unwrap());
    });
    group.finish();

    let (root, tip) = (bushy.root().id.to_string(), bushy.current().id.to_string());
    let mut group = criterion.benchmark_group("tree/merge");
    group.bench_function("a_branch_into_its_root", |bencher| {
        bencher.iter_batched_ref(
            || bushy.clone(),
            |tree| tree.merge(black_box(&tip), &root, &SystemClock).unwrap(),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("diff", |bencher| bencher.iter(|| bushy.diff(black_box(&tip), &root).unwrap()));
    group.finish();
}

criterion_group!(benches, shapes);
criterion_main!(benches);
