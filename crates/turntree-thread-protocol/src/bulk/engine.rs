//! A thread pool that returns results in order and bounds the work in flight.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::BulkError;

/// The interval of ticks.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Documents of at least this many bytes are counted one by one; smaller ones by their total size.
const LARGE: usize = 4 << 20;

/// Bytes of small documents in flight per thread: a few batches, so that no thread waits and the batches fit in shared
/// caches.
const SMALL: usize = 1 << 20;

/// The side of the calling thread: supplies jobs and takes results.
pub(super) trait Coordinator {
    type Job: Send;
    type Done: Send;

    /// The next job and its size in bytes; `None` at the end.
    fn next(&mut self) -> Result<Option<(Self::Job, usize)>, BulkError>;

    /// Takes a result. Results arrive in the order of their jobs.
    fn take(&mut self, done: Self::Done) -> Result<(), BulkError>;

    /// Called at regular intervals.
    fn tick(&mut self) -> Result<(), BulkError>;
}

/// Work in flight.
#[derive(Default)]
struct InFlight {
    large: usize,
    small: usize,
    count: usize,
}

impl InFlight {
    fn has_room(&self, threads: usize) -> bool {
        self.count == 0 || (self.large < threads && self.small < threads.saturating_mul(SMALL))
    }

    fn add(&mut self, size: usize) {
        self.count += 1;
        if size >= LARGE { self.large += 1 } else { self.small += size }
    }

    fn remove(&mut self, size: usize) {
        self.count = self.count.saturating_sub(1);
        if size >= LARGE {
            self.large = self.large.saturating_sub(1);
        } else {
            self.small = self.small.saturating_sub(size);
        }
    }
}

/// Runs `work` on `threads` threads for all jobs of `coordinator`. With one thread, it runs on the calling thread.
///
/// # Errors
/// The errors of `coordinator`. Work in flight then stops at its next check of the flag.
pub(super) fn run<L: Coordinator>(
    coordinator: &mut L,
    threads: usize,
    work: impl Fn(L::Job, &AtomicBool) -> L::Done + Sync,
) -> Result<(), BulkError> {
    let stopped = AtomicBool::new(false);
    if threads <= 1 {
        return alone(coordinator, &work, &stopped);
    }
    let (job_sender, jobs) = mpsc::channel::<(usize, L::Job)>();
    let (finish, finished) = mpsc::channel();
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (finish, jobs, work, stopped) = (finish.clone(), &jobs, &work, &stopped);
            scope.spawn(move || {
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((place, job)) = job else { break };
                    // Panics are sent to the calling thread, which would otherwise wait forever.
                    let done = catch_unwind(AssertUnwindSafe(|| work(job, stopped)));
                    if finish.send((place, done)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(finish);
        let mut order = ReorderBuffer {
            waiting: BTreeMap::new(),
            sizes: BTreeMap::new(),
            under_way: InFlight::default(),
            next: 0,
        };
        let result = lead_through(coordinator, threads, &job_sender, &finished, &mut order);
        stopped.store(true, Ordering::Relaxed);
        drop(job_sender);
        result
    })
}

fn alone<L: Coordinator>(
    coordinator: &mut L,
    work: &(impl Fn(L::Job, &AtomicBool) -> L::Done + Sync),
    stopped: &AtomicBool,
) -> Result<(), BulkError> {
    let mut last_tick = Instant::now();
    while let Some((job, _)) = coordinator.next()? {
        coordinator.take(work(job, stopped))?;
        if last_tick.elapsed() >= TICK {
            coordinator.tick()?;
            last_tick = Instant::now();
        }
    }
    Ok(())
}

/// Results that wait for earlier ones.
struct ReorderBuffer<D> {
    waiting: BTreeMap<usize, D>,
    sizes: BTreeMap<usize, usize>,
    under_way: InFlight,
    next: usize,
}

type Finished<D> = (usize, thread::Result<D>);

fn lead_through<L: Coordinator>(
    coordinator: &mut L,
    threads: usize,
    job_sender: &mpsc::Sender<(usize, L::Job)>,
    finished: &mpsc::Receiver<Finished<L::Done>>,
    order: &mut ReorderBuffer<L::Done>,
) -> Result<(), BulkError> {
    let (mut place, mut more, mut last_tick) = (0, true, Instant::now());
    while more || order.under_way.count > 0 {
        if more && order.under_way.has_room(threads) {
            match coordinator.next()? {
                Some((job, size)) => {
                    order.under_way.add(size);
                    order.sizes.insert(place, size);
                    // The threads outlive the sender.
                    let _received = job_sender.send((place, job));
                    place += 1;
                }
                None => more = false,
            }
            while let Ok(done) = finished.try_recv() {
                settle(coordinator, order, done)?;
            }
        } else {
            match finished.recv_timeout(TICK) {
                Ok(done) => settle(coordinator, order, done)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(broken()),
            }
        }
        if last_tick.elapsed() >= TICK {
            coordinator.tick()?;
            last_tick = Instant::now();
        }
    }
    Ok(())
}

fn settle<L: Coordinator>(
    coordinator: &mut L,
    order: &mut ReorderBuffer<L::Done>,
    (place, done): Finished<L::Done>,
) -> Result<(), BulkError> {
    let done = done.map_err(|_| broken())?;
    order.waiting.insert(place, done);
    while let Some(done) = order.waiting.remove(&order.next) {
        order.under_way.remove(order.sizes.remove(&order.next).unwrap_or_default());
        order.next += 1;
        coordinator.take(done)?;
    }
    Ok(())
}

/// The error of a worker thread that panicked.
fn broken() -> BulkError {
    BulkError::Stopped(
        "turntree failed on a document, which is a bug; please report it with the document".into(),
    )
}
