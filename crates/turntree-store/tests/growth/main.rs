//! What a session costs as it grows: memory after a load, CPU time and bytes of a turn. A binary of its own: it measures the
//! whole process.

#![cfg(test)]
#![cfg(target_os = "linux")]

mod allocator;
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use support::{Stored, Turns};
use turntree_agents::session::CheckpointInterval;

/// The tests measure the process, so one runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the bytes that a value holds, and the value.
fn measured<T>(make: impl FnOnce() -> T) -> (usize, T) {
    let before = allocator::allocated();
    let value = make();
    (allocator::allocated() - before, value)
}

/// Compares the allocated bytes of a session that runs turns with those of the same session after a load.
fn assert_loaded_is_as_small(stored: &Stored, turns: usize, kind: Turns) {
    let (of_live, live) = measured(|| stored.run(turns, kind));
    drop(live);

    // The least of some loads: a thread that starts to decode has caches of its own (20 kB), which are no part of a session.
    let loads = (0..3).map(|_| {
        let (of_loaded, loaded) = measured(|| stored.load());
        assert!(loaded.tree().snapshot().history().len() >= 2 * turns);
        of_loaded
    });
    let of_loaded = loads.min().unwrap();

    println!("{turns} turns, {kind:?}: {of_live} bytes live, {of_loaded} bytes loaded");
    // The collections of both have spare room, at different moments of their growth.
    assert!(of_loaded * 100 <= of_live * 115, "{of_live} bytes live, {of_loaded} bytes loaded");
}

#[test]
fn a_loaded_session_takes_as_much_memory_as_the_live_one() {
    let _alone = alone();
    // The first session fills caches of the process.
    Stored::new().run(10, Turns::Text);
    for (turns, kind) in [(100, Turns::Text), (2_000, Turns::Text), (50, Turns::Tools)] {
        assert_loaded_is_as_small(&Stored::new(), turns, kind);
    }
}

#[test]
fn a_session_read_from_json_takes_at_most_half_more_memory_than_the_live_one() {
    let _alone = alone();
    let stored = Stored::new();
    stored.run_without_store(10, Turns::Text, CheckpointInterval::Step);
    for (turns, kind) in [(1, Turns::ManyTools), (20, Turns::Tools), (1_000, Turns::Text)] {
        let (of_live, live) = measured(|| stored.run_without_store(turns, kind, CheckpointInterval::Step));
        let document = live.to_json().unwrap();
        drop(live);
        let (of_loaded, loaded) = measured(|| stored.read_json(&document));

        println!("{turns} turns, {kind:?}: {of_live} bytes live, {of_loaded} bytes read from JSON");
        assert!(of_loaded * 100 <= of_live * 150, "{of_live} bytes live, {of_loaded} bytes read from JSON");
        assert_eq!(loaded.to_json().unwrap(), document);
    }
}

#[test]
fn turns_of_2_kilobytes_take_less_than_a_third_more_memory_than_their_text() {
    const TURNS: usize = 1_000;
    let _alone = alone();
    let stored = Stored::new();
    for (interval, percent) in [(CheckpointInterval::Off, 130), (CheckpointInterval::Step, 140)] {
        let (early, session) = measured(|| stored.run_without_store(TURNS, Turns::Text, interval));
        let (late, ()) = measured(|| stored.continue_with(&session, TURNS, Turns::Text));

        println!("{interval:?}: {early} bytes of the first {TURNS} turns, {late} bytes of the second");
        // The same for each turn, so for any number of turns; the memory that collections grow into is part of it.
        for bytes in [early, late] {
            assert!(bytes * 100 <= TURNS * 2_000 * percent, "{bytes} bytes of {TURNS} turns, {interval:?}");
        }
    }
}

/// What some turns cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// CPU time of all threads.
    nanoseconds: u64,
    /// Bytes passed to `write`.
    bytes: u64,
    /// Allocations of all threads: work that grew with the session would allocate more.
    allocations: u64,
}

fn cost_of(turns: impl FnOnce()) -> Cost {
    let (nanoseconds, bytes) = (support::cpu_time(), support::written());
    let allocations = allocator::allocations();
    turns();
    Cost {
        allocations: allocator::allocations() - allocations,
        nanoseconds: support::cpu_time() - nanoseconds,
        bytes: support::written() - bytes,
    }
}

#[test]
fn a_turn_costs_the_same_after_3000_turns() {
    const TURNS: usize = 50;
    let _alone = alone();
    let stored = Stored::new();
    let long = stored.run(3_000, Turns::Text);

    // In turns: other programs slow both.
    let costs = (0..8).map(|_| {
        let other = Stored::new();
        let short = other.run(TURNS, Turns::Text);
        let short = cost_of(|| other.continue_with(&short, TURNS, Turns::Text));
        (short, cost_of(|| stored.continue_with(&long, TURNS, Turns::Text)))
    });
    let costs: Vec<(Cost, Cost)> = costs.collect();

    for (unit, limit, value) in [
        // What other programs do to the caches varies by more than a tenth: 2 000 turns cost less than 2.3 times 1 000.
        ("ns", 130, (|cost| cost.nanoseconds) as fn(&Cost) -> u64),
        ("B", 110, |cost: &Cost| cost.bytes),
        ("allocations", 110, |cost: &Cost| cost.allocations),
    ] {
        // The least: other programs and the checkpoints of the database only add to it.
        let short = costs.iter().map(|(short, _)| value(short)).min().unwrap();
        let long = costs.iter().map(|(_, long)| value(long)).min().unwrap();
        println!("{TURNS} turns: {short} {unit} at the start, {long} {unit} after 3000");
        assert!(long * 100 <= short * limit, "{short} {unit} at the start, {long} {unit} after 3000 turns");
    }
}
