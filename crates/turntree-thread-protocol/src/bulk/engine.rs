//! Work given to threads and taken back in order, with a bound on what is under way.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::BulkError;

/// How often the observer is asked while nothing else happens.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// A document of this many bytes counts for itself; smaller ones count together.
const LARGE: usize = 4 << 20;

/// Bytes of small documents that may be under way, for each thread: a few batches, so that no thread waits for the next
/// one and all of them stay in the caches that cores share.
const SMALL: usize = 1 << 20;

/// The calling thread's side: what gives work, takes results, and is asked now and then.
pub(super) trait Coordinator {
    type Job: Send;
    type Done: Send;

    /// The next work and its size in bytes; `None` when there is no more.
    fn next(&mut self) -> Result<Option<(Self::Job, usize)>, BulkError>;

    /// Takes a result, in the order of the work.
    fn take(&mut self, done: Self::Done) -> Result<(), BulkError>;

    /// Time passes.
    fn tick(&mut self) -> Result<(), BulkError>;
}

/// What is under way.
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

/// Runs `work` on `threads` threads for all that `coordinator` gives. With one thread it runs on the calling one.
///
/// # Errors
/// Those of `coordinator`; work under way then ends as soon as it looks at the flag.
pub(super) fn run<L: Coordinator>(
    coordinator: &mut L,
    threads: usize,
    work: impl Fn(L::Job, &AtomicBool) -> L::Done + Sync,
) -> Result<(), BulkError> {
    let stopped = AtomicBool::new(false);
    if threads <= 1 {
        return alone(coordinator, &work, &stopped);
    }
    let (give, given) = mpsc::channel::<(usize, L::Job)>();
    let (finish, finished) = mpsc::channel();
    let given = Mutex::new(given);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (finish, given, work, stopped) = (finish.clone(), &given, &work, &stopped);
            scope.spawn(move || {
                loop {
                    let job = given.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((place, job)) = job else { break };
                    // A panic is told to the calling thread: one that nobody hears of would be waited for.
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
        let result = lead_through(coordinator, threads, &give, &finished, &mut order);
        stopped.store(true, Ordering::Relaxed);
        drop(give);
        result
    })
}

fn alone<L: Coordinator>(
    coordinator: &mut L,
    work: &(impl Fn(L::Job, &AtomicBool) -> L::Done + Sync),
    stopped: &AtomicBool,
) -> Result<(), BulkError> {
    let mut asked = Instant::now();
    while let Some((job, _)) = coordinator.next()? {
        coordinator.take(work(job, stopped))?;
        if asked.elapsed() >= TICK {
            coordinator.tick()?;
            asked = Instant::now();
        }
    }
    Ok(())
}

/// Results that wait for those before them.
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
    give: &mpsc::Sender<(usize, L::Job)>,
    finished: &mpsc::Receiver<Finished<L::Done>>,
    order: &mut ReorderBuffer<L::Done>,
) -> Result<(), BulkError> {
    let (mut place, mut more, mut asked) = (0, true, Instant::now());
    while more || order.under_way.count > 0 {
        if more && order.under_way.has_room(threads) {
            match coordinator.next()? {
                Some((job, size)) => {
                    order.under_way.add(size);
                    order.sizes.insert(place, size);
                    // The threads outlive the sender.
                    let _received = give.send((place, job));
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
        if asked.elapsed() >= TICK {
            coordinator.tick()?;
            asked = Instant::now();
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

/// The error of a thread that panicked.
fn broken() -> BulkError {
    BulkError::Stopped(
        "turntree failed on a document, which is a bug; please report it with the document".into(),
    )
}
