//! Tasks that another server works on, as the store has them.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{Stream, stream};
use turntree_core::runtime;

use super::model::{ArtifactUpdate, StatusUpdate, StreamEvent, Task};
use super::work::{Job, state_now};

/// How often the store is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// Follows a task: the task, then its changes in the store until it ends or waits for the client. The other server stores
/// changes of state, so the text comes in one piece. The events have the number 0: a client that comes back to the server
/// that works on the task receives all of its events.
pub(super) fn follow(job: Job, task: Task) -> impl Stream<Item = (u64, StreamEvent)> + Send {
    let waiting = VecDeque::from([StreamEvent::Task(task.clone())]);
    stream::unfold(Following { job, task, waiting }, |mut following| async move {
        loop {
            if let Some(event) = following.waiting.pop_front() {
                return Some(((0, event), following));
            }
            let state = following.task.status.state;
            if state.is_terminal() || state.is_interrupted() {
                return None;
            }
            runtime::sleep(INTERVAL).await;
            let task = following.read().await?;
            following.update(task);
        }
    })
}

struct Following {
    job: Job,
    task: Task,
    waiting: VecDeque<StreamEvent>,
}

impl Following {
    /// The task as it is now. `None` ends the stream: the task was removed, or the store failed.
    async fn read(&self) -> Option<Task> {
        let now = self.job.site.clock.now();
        match self.job.store.load(&self.task.id, now).await {
            Ok(found) => found.map(|(mut stored, _)| {
                let state = stored.task.status.state;
                stored.task.status.state = state_now(state, stored.alive_at, now.microseconds());
                stored.task
            }),
            Err(error) => {
                log::warn!("A2A: the task {} can no longer be followed: {error}", self.task.id);
                None
            }
        }
    }

    fn update(&mut self, task: Task) {
        let (task_id, context_id) = (task.id.clone(), task.context_id.clone());
        for artifact in task.artifacts.iter().filter(|artifact| !self.task.artifacts.contains(artifact)) {
            self.waiting.push_back(StreamEvent::ArtifactUpdate(ArtifactUpdate {
                task_id: task_id.clone(),
                context_id: context_id.clone(),
                artifact: artifact.clone(),
                append: false,
                last_chunk: task.status.state.is_terminal(),
            }));
        }
        if task.status != self.task.status {
            let status = task.status.clone();
            self.waiting.push_back(StreamEvent::StatusUpdate(StatusUpdate { task_id, context_id, status }));
        }
        self.task = task;
    }
}
