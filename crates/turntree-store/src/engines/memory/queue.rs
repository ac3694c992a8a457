//! The queue of a store in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use turntree_core::runtime;
use turntree_core::time::{Clock as _, SystemClock, Timestamp};

use super::{MemoryEngine, Session, State};
use crate::engine::{EngineFuture, SessionStatus};
use crate::error::StoreError;
use crate::queue::{Claim, Claimed, Finish, NewRun, Queue, Run, RunPage, RunQuery, RunStatus, RunTexts};

/// How often an idle worker looks for runs.
const POLL: Duration = Duration::from_millis(50);

/// The runs, in the order in which they were added, and the leases.
#[derive(Default)]
pub(super) struct Runs {
    next: u64,
    stored: BTreeMap<u64, Stored>,
    numbers: HashMap<Arc<str>, u64>,
    active: HashSet<u64>,
    leases: HashMap<Arc<str>, Lease>,
}

struct Stored {
    run: Run,
    is_started: bool,
    priority: i32,
    /// Microseconds since 1970.
    not_before: i64,
    retry_at: Option<Instant>,
    seen: i64,
}

struct Lease {
    token: u64,
    /// None: it was released.
    expires: Option<Instant>,
}

impl Runs {
    fn get(&mut self, id: &str) -> Option<&mut Stored> {
        self.stored.get_mut(self.numbers.get(id)?)
    }

    /// The number of the next run.
    fn next(&self, sessions: &BTreeMap<Arc<str>, Session>, agents: &[String]) -> Option<u64> {
        let (time, now) = (SystemClock.now().microseconds(), Instant::now());
        // The first run of each session.
        let mut first: HashMap<&str, (bool, u64)> = HashMap::new();
        for (number, stored) in self.active() {
            if stored.not_before <= time {
                let place = (!stored.is_started, number);
                let best = first.entry(&stored.run.session).or_insert(place);
                *best = place.min(*best);
            }
        }
        let is_ready = |stored: &Stored| {
            let run = &stored.run;
            let session = sessions.get(&run.session).map(|session| &session.info);
            let goes_on = session.is_some_and(|info| {
                info.status != SessionStatus::Waiting && info.updated_at.microseconds() != stored.seen
            });
            let is_free = self.leases.get(&run.session).and_then(|lease| lease.expires);
            is_free.is_none_or(|expires| expires <= now)
                && stored.retry_at.is_none_or(|time| time <= now)
                && run.agent.as_ref().is_none_or(|agent| agents.contains(agent))
                && (run.status != RunStatus::Waiting || goes_on)
        };
        first
            .into_values()
            .filter_map(|(_, number)| self.stored.get(&number).map(|stored| (number, stored)))
            .filter(|(_, stored)| is_ready(stored))
            .min_by_key(|(number, stored)| (Reverse(stored.priority), *number))
            .map(|(number, _)| number)
    }

    fn active(&self) -> impl Iterator<Item = (u64, &Stored)> {
        self.active.iter().filter_map(|number| self.stored.get(number).map(|stored| (*number, stored)))
    }
}

impl MemoryEngine {
    fn enqueue_now(&self, run: NewRun) -> Result<(), StoreError> {
        let runs = &mut self.state()?.runs;
        if runs.numbers.contains_key(&run.id) {
            return Ok(());
        }
        // The position of a page is a number below which the next one starts.
        runs.next += 1;
        let (number, now) = (runs.next, SystemClock.now());
        runs.numbers.insert(Arc::clone(&run.id), number);
        runs.active.insert(number);
        let stored = Stored {
            is_started: false,
            priority: run.priority,
            not_before: run.not_before.map_or(i64::MIN, Timestamp::microseconds),
            retry_at: None,
            seen: 0,
            run: Run {
                id: run.id,
                session: run.session,
                input: run.input,
                agent: run.agent,
                status: RunStatus::Queued,
                attempts: 0,
                failures: 0,
                error: None,
                turn: None,
                created_at: now,
                updated_at: now,
            },
        };
        runs.stored.insert(number, stored);
        Ok(())
    }

    fn resume_now(&self, session: &str) -> Result<Option<Arc<str>>, StoreError> {
        let runs = &mut self.state()?.runs;
        for number in &runs.active {
            let Some(stored) = runs.stored.get_mut(number) else { continue };
            if *stored.run.session == *session && stored.run.status == RunStatus::Waiting {
                stored.run.status = RunStatus::Queued;
                stored.run.updated_at = SystemClock.now();
                return Ok(Some(Arc::clone(&stored.run.id)));
            }
        }
        Ok(None)
    }

    fn claim_now(&self, claim: &Claim) -> Result<Option<Claimed>, StoreError> {
        let mut state = self.state()?;
        let State { runs, sessions, .. } = &mut *state;
        let number = runs.next(sessions, &claim.agents);
        let Some(stored) = number.and_then(|number| runs.stored.get_mut(&number)) else { return Ok(None) };
        let was_started = std::mem::replace(&mut stored.is_started, true);
        stored.run.status = RunStatus::Running;
        stored.run.updated_at = SystemClock.now();
        stored.run.attempts = stored.run.attempts.saturating_add(1);
        let run = stored.run.clone();
        let session = sessions.get_mut(&run.session);
        let fence = session.as_ref().and_then(|session| session.fence).unwrap_or_default();
        let lease =
            runs.leases.entry(Arc::clone(&run.session)).or_insert(Lease { token: fence, expires: None });
        lease.token = lease.token.max(fence) + 1;
        lease.expires = Instant::now().checked_add(claim.lease);
        if let Some(session) = session {
            session.fence = Some(lease.token);
        }
        Ok(Some(Claimed { run, token: lease.token, was_started }))
    }

    fn runs_now(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        let below = u64::try_from(query.below()?).unwrap_or_default();
        let state = self.state()?;
        let is_selected = |run: &Run| {
            query.status.is_none_or(|status| run.status == status)
                && query.session.as_deref().is_none_or(|session| *run.session == *session)
        };
        let newest_first =
            state.runs.stored.range(..below).rev().filter(|(_, stored)| is_selected(&stored.run));
        let found = newest_first.take(query.limit.saturating_add(1));
        let numbered =
            found.map(|(number, stored)| (i64::try_from(*number).unwrap_or(i64::MAX), stored.run.clone()));
        Ok(query.page(numbered.collect()))
    }

    fn prune_now(&self, before: Timestamp) -> Result<u64, StoreError> {
        let runs = &mut self.state()?.runs;
        let count = runs.stored.len();
        runs.stored.retain(|_, stored| stored.run.status.is_active() || stored.run.updated_at > before);
        let Runs { numbers, stored, .. } = runs;
        numbers.retain(|_, number| stored.contains_key(number));
        Ok(u64::try_from(count - stored.len()).unwrap_or_default())
    }

    fn rewrite_now(&self, id: &str, from: &RunTexts, to: RunTexts) -> Result<bool, StoreError> {
        let runs = &mut self.state()?.runs;
        let Some(stored) = runs.get(id).filter(|stored| RunTexts::of(&stored.run) == *from) else {
            return Ok(false);
        };
        (stored.run.input, stored.run.error, stored.run.turn) = (to.input, to.error, to.turn);
        Ok(true)
    }

    fn heartbeat_now(&self, session: &str, token: u64, duration: Duration) -> Result<bool, StoreError> {
        let mut state = self.state()?;
        match state.runs.leases.get_mut(session) {
            Some(lease) if lease.token == token && lease.expires.is_some() => {
                lease.expires = Instant::now().checked_add(duration);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn finish_now(&self, finish: &Finish) -> Result<(), StoreError> {
        let mut state = self.state()?;
        let runs = &mut state.runs;
        match runs.leases.get_mut(&finish.session) {
            Some(lease) if lease.token == finish.token && lease.expires.is_some() => lease.expires = None,
            _ => return Err(StoreError::Fenced { session: Arc::clone(&finish.session) }),
        }
        let Some(stored) = runs.get(&finish.run) else { return Ok(()) };
        let (run, change) = (&mut stored.run, finish.outcome.change());
        let counted = |count: u32, change_by: i32| {
            count.saturating_mul(change.factor.unsigned_abs()).saturating_add_signed(change_by)
        };
        run.status = change.status;
        run.updated_at = SystemClock.now();
        run.turn = change.turn.map(str::to_owned);
        run.failures = counted(run.failures, change.failures);
        run.attempts = counted(run.attempts, change.attempts);
        run.error = match change.error {
            Some(error) => Some(error.to_owned()),
            None if change.status == RunStatus::Done => None,
            None => run.error.take(),
        };
        stored.seen = change.seen;
        let delay = Duration::from_micros(change.delay.unsigned_abs());
        stored.retry_at = Instant::now().checked_add(delay);
        if !change.status.is_active() {
            let number = runs.numbers.get(&finish.run).copied();
            number.map(|number| runs.active.remove(&number));
        }
        Ok(())
    }
}

impl Queue for MemoryEngine {
    fn enqueue(&self, run: NewRun) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.enqueue_now(run) })
    }

    fn resume(&self, session: &str) -> EngineFuture<'_, Option<Arc<str>>> {
        let session = session.to_owned();
        Box::pin(async move { self.resume_now(&session) })
    }

    fn run(&self, id: &str) -> EngineFuture<'_, Option<Run>> {
        let id = id.to_owned();
        Box::pin(async move { Ok(self.state()?.runs.get(&id).map(|stored| stored.run.clone())) })
    }

    fn runs(&self, query: RunQuery) -> EngineFuture<'_, RunPage> {
        Box::pin(async move { self.runs_now(&query) })
    }

    fn prune_runs(&self, before: Timestamp) -> EngineFuture<'_, u64> {
        Box::pin(async move { self.prune_now(before) })
    }

    fn rewrite(&self, id: &str, from: RunTexts, to: RunTexts) -> EngineFuture<'_, bool> {
        let id = id.to_owned();
        Box::pin(async move { self.rewrite_now(&id, &from, to) })
    }

    fn claim(&self, claim: Claim) -> EngineFuture<'_, Option<Claimed>> {
        Box::pin(async move { self.claim_now(&claim) })
    }

    fn heartbeat(&self, session: &str, token: u64, lease: Duration) -> EngineFuture<'_, bool> {
        let session = session.to_owned();
        Box::pin(async move { self.heartbeat_now(&session, token, lease) })
    }

    fn finish(&self, finish: Finish) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.finish_now(&finish) })
    }

    fn wait(&self, timeout: Duration) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            runtime::sleep(timeout.min(POLL)).await;
            Ok(())
        })
    }
}
