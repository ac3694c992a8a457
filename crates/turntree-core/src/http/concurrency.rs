//! Limits concurrent requests per host.

use std::collections::HashMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::runtime::PerProcess;

/// Maximum number of semaphores before unused ones are removed.
const MAX_SEMAPHORES: usize = 1024;

type Semaphores = Mutex<HashMap<(String, NonZeroUsize), Arc<Semaphore>>>;

/// The semaphores of this process. A fork starts with new ones, because its parent's requests are not its own.
static SEMAPHORES: PerProcess<Semaphores> = PerProcess::new();

/// Permission to send a request; released when dropped.
#[derive(Debug)]
pub(super) struct Permit(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// Waits for permission to send to an origin, in the order of the calls.
///
/// # Cancel safety
/// Dropping the future removes it from the queue.
pub(super) async fn acquire(origin: String, limit: NonZeroUsize) -> Option<Permit> {
    let semaphore = semaphore(origin, limit);
    // The semaphore is never closed.
    semaphore.acquire_owned().await.ok().map(Permit)
}

fn semaphore(origin: String, limit: NonZeroUsize) -> Arc<Semaphore> {
    let Ok(semaphores) = SEMAPHORES.get_or_try_create(|| Ok::<_, Infallible>(Mutex::default()));
    let mut semaphores = semaphores.lock().unwrap_or_else(PoisonError::into_inner);
    if semaphores.len() >= MAX_SEMAPHORES {
        semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
    }
    let places = limit.get().min(Semaphore::MAX_PERMITS);
    Arc::clone(semaphores.entry((origin, limit)).or_insert_with(|| Arc::new(Semaphore::new(places))))
}
