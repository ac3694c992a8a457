//! How many requests to one host are under way at once.

use std::collections::HashMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::runtime::PerProcess;

/// Gates kept before those that nobody uses are forgotten.
const MAX_GATES: usize = 1024;

type Gates = Mutex<HashMap<(String, NonZeroUsize), Arc<Semaphore>>>;

/// The gates of this process; a fork begins with open ones, because its parent's requests are not its own.
static GATES: PerProcess<Gates> = PerProcess::new();

/// Leave to send; gives way to the next in line when dropped.
#[derive(Debug)]
pub(super) struct Permit(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// Waits for leave to send to an origin, first come, first served.
///
/// # Cancel safety
/// Dropping it leaves the line.
pub(super) async fn admit(origin: String, limit: NonZeroUsize) -> Option<Permit> {
    let gate = gate(origin, limit);
    // It is never closed.
    gate.acquire_owned().await.ok().map(Permit)
}

fn gate(origin: String, limit: NonZeroUsize) -> Arc<Semaphore> {
    let Ok(gates) = GATES.get_or_try_create(|| Ok::<_, Infallible>(Mutex::default()));
    let mut gates = gates.lock().unwrap_or_else(PoisonError::into_inner);
    if gates.len() >= MAX_GATES {
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
    }
    let places = limit.get().min(Semaphore::MAX_PERMITS);
    Arc::clone(gates.entry((origin, limit)).or_insert_with(|| Arc::new(Semaphore::new(places))))
}
