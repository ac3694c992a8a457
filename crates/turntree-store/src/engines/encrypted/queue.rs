//! The queue of an encrypted store. Inputs, turns and errors are encrypted; ids, agents, status and times stay readable.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::EncryptedEngine;
use super::keys::{self, Place};
use crate::digest::Digest;
use crate::engine::EngineFuture;
use crate::error::StoreError;
use crate::queue::{Claim, Claimed, Finish, NewRun, Outcome, Queue, Run, RunPage, RunQuery, RunTexts};
use turntree_core::time::Timestamp;

/// The number of runs of a page while keys are changed.
const PAGE: usize = 100;

/// What a text of a run is. A sealed text is opened only there.
#[derive(Debug, Clone, Copy)]
enum Text {
    Input = 0,
    Error = 1,
    Turn = 2,
}

impl EncryptedEngine {
    fn inner_queue(&self) -> Result<&dyn Queue, StoreError> {
        let store = &self.keyring.store;
        self.inner.queue().ok_or_else(|| StoreError::Invalid(format!("{store} has no queue of runs")))
    }

    fn seal_text(&self, session: &str, run: &str, kind: Text, text: &str) -> Result<String, StoreError> {
        let place = Place::Run { session, run: Digest::of(run.as_bytes()), text: kind as u64 };
        Ok(STANDARD.encode(self.keyring.seal(place, text.as_bytes())?))
    }

    fn open_text(&self, run: &Run, kind: Text, text: &str) -> Result<String, String> {
        let place =
            Place::Run { session: &run.session, run: Digest::of(run.id.as_bytes()), text: kind as u64 };
        // A text that is not base64 was written without encryption.
        let sealed = STANDARD.decode(text).unwrap_or_default();
        let opened = keys::open(&self.keyring.keys, place, &sealed)?;
        String::from_utf8(opened).map_err(|_| "a text is not UTF-8".to_owned())
    }

    fn open_run(&self, run: Run) -> Result<Run, StoreError> {
        let open = |kind, text: Option<&String>| {
            let opened = text.map(|text| self.open_text(&run, kind, text)).transpose();
            opened.map_err(|reason| StoreError::Failed {
                store: Arc::clone(&self.keyring.store),
                reason: format!("run \"{}\" cannot be read: {reason}", run.id),
            })
        };
        let input = open(Text::Input, run.input.as_ref())?;
        let error = open(Text::Error, run.error.as_ref())?;
        let turn = open(Text::Turn, run.turn.as_ref())?;
        Ok(Run { input, error, turn, ..run })
    }

    fn seal_outcome(&self, finish: Finish) -> Result<Finish, StoreError> {
        let seal = |kind, text: String| self.seal_text(&finish.session, &finish.run, kind, &text);
        let outcome = match finish.outcome {
            Outcome::Done(turn) => Outcome::Done(turn.map(|turn| seal(Text::Turn, turn)).transpose()?),
            Outcome::Failed(error) => Outcome::Failed(seal(Text::Error, error)?),
            Outcome::Retry { error, delay } => Outcome::Retry { error: seal(Text::Error, error)?, delay },
            Outcome::Waiting { error, updated_at } => {
                Outcome::Waiting { error: seal(Text::Error, error)?, updated_at }
            }
            Outcome::Released => Outcome::Released,
        };
        Ok(Finish { outcome, ..finish })
    }

    async fn claim_sealed(&self, claim: Claim) -> Result<Option<Claimed>, StoreError> {
        let queue = self.inner_queue()?;
        let Some(claimed) = queue.claim(claim).await? else { return Ok(None) };
        let (run, session, token) =
            (Arc::clone(&claimed.run.id), Arc::clone(&claimed.run.session), claimed.token);
        match self.open_run(claimed.run) {
            Ok(opened) => Ok(Some(Claimed { run: opened, ..claimed })),
            // A worker with the right keys may have it.
            Err(error) => {
                queue.finish(Finish { run, session, token, outcome: Outcome::Released }).await?;
                Err(error)
            }
        }
    }

    /// Encrypts the texts of all runs with the first key. Returns how many runs were changed.
    pub(super) async fn rotate_runs(&self) -> Result<(), StoreError> {
        let Some(queue) = self.inner.queue() else { return Ok(()) };
        let mut query = RunQuery { limit: PAGE, ..RunQuery::default() };
        loop {
            let page = queue.runs(query.clone()).await?;
            for run in page.runs {
                self.rotate_run(queue, run).await?;
            }
            query.after = page.next;
            if query.after.is_none() {
                return Ok(());
            }
        }
    }

    async fn rotate_run(&self, queue: &dyn Queue, mut run: Run) -> Result<(), StoreError> {
        loop {
            if self.is_of_first_key(&run)? {
                return Ok(());
            }
            let from = RunTexts::of(&run);
            let opened = self.open_run(run.clone())?;
            let seal = |kind, text: Option<String>| {
                text.map(|text| self.seal_text(&run.session, &run.id, kind, &text)).transpose()
            };
            let to = RunTexts {
                input: seal(Text::Input, opened.input)?,
                error: seal(Text::Error, opened.error)?,
                turn: seal(Text::Turn, opened.turn)?,
            };
            if queue.rewrite(&run.id, from, to).await? {
                return Ok(());
            }
            // A worker has changed it, or it was removed.
            let Some(found) = queue.run(&run.id).await? else { return Ok(()) };
            run = found;
        }
    }

    fn is_of_first_key(&self, run: &Run) -> Result<bool, StoreError> {
        let first = self.keyring.first()?;
        let is_of_first = |text: &String| {
            let sealed = STANDARD.decode(text).unwrap_or_default();
            keys::key_id(&sealed).is_some_and(|(id, _)| *id == *first.id)
        };
        Ok([&run.input, &run.error, &run.turn].into_iter().flatten().all(is_of_first))
    }
}

impl Queue for EncryptedEngine {
    fn enqueue(&self, run: NewRun) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let seal = |text: &String| self.seal_text(&run.session, &run.id, Text::Input, text);
            let input = run.input.as_ref().map(seal).transpose()?;
            self.inner_queue()?.enqueue(NewRun { input, ..run }).await
        })
    }

    fn resume(&self, session: &str) -> EngineFuture<'_, Option<Arc<str>>> {
        let session = session.to_owned();
        Box::pin(async move { self.inner_queue()?.resume(&session).await })
    }

    fn run(&self, id: &str) -> EngineFuture<'_, Option<Run>> {
        let id = id.to_owned();
        Box::pin(async move {
            let run = self.inner_queue()?.run(&id).await?;
            run.map(|run| self.open_run(run)).transpose()
        })
    }

    fn runs(&self, query: RunQuery) -> EngineFuture<'_, RunPage> {
        Box::pin(async move {
            let RunPage { runs, next } = self.inner_queue()?.runs(query).await?;
            let runs = runs.into_iter().map(|run| self.open_run(run)).collect::<Result<_, _>>()?;
            Ok(RunPage { runs, next })
        })
    }

    fn prune_runs(&self, before: Timestamp) -> EngineFuture<'_, u64> {
        Box::pin(async move { self.inner_queue()?.prune_runs(before).await })
    }

    fn rewrite(&self, id: &str, from: RunTexts, to: RunTexts) -> EngineFuture<'_, bool> {
        let id = id.to_owned();
        Box::pin(async move {
            let queue = self.inner_queue()?;
            let Some(run) = queue.run(&id).await? else { return Ok(false) };
            let sealed = RunTexts::of(&run);
            if RunTexts::of(&self.open_run(run.clone())?) != from {
                return Ok(false);
            }
            let seal = |kind, text: Option<String>| {
                text.map(|text| self.seal_text(&run.session, &run.id, kind, &text)).transpose()
            };
            let to = RunTexts {
                input: seal(Text::Input, to.input)?,
                error: seal(Text::Error, to.error)?,
                turn: seal(Text::Turn, to.turn)?,
            };
            queue.rewrite(&id, sealed, to).await
        })
    }

    fn claim(&self, claim: Claim) -> EngineFuture<'_, Option<Claimed>> {
        Box::pin(self.claim_sealed(claim))
    }

    fn heartbeat(&self, session: &str, token: u64, lease: Duration) -> EngineFuture<'_, bool> {
        let session = session.to_owned();
        Box::pin(async move { self.inner_queue()?.heartbeat(&session, token, lease).await })
    }

    fn finish(&self, finish: Finish) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let finish = self.seal_outcome(finish)?;
            self.inner_queue()?.finish(finish).await
        })
    }

    fn wait(&self, timeout: Duration) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.inner_queue()?.wait(timeout).await })
    }
}
