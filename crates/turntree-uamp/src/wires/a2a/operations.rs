//! The operations of the protocol, independent of version and binding.

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _};
use serde_json::{Value, json};
use turntree_agents::session::id::is_session_id;
use turntree_core::time::Timestamp;

use super::error::{A2aError, ErrorKind};
use super::live::LiveTask;
use super::machine::TaskMachine;
use super::model::{Message, PushConfig, StreamEvent, Task, TaskState};
use super::push;
use super::remote;
use super::requests::{self, ConfigRequest, ListRequest, SendRequest, TaskRequest};
use super::store::StoredTask;
use super::work::{self, Job, Step, Workshop};

/// How many tasks a page has, unless the client says.
const PAGE: u64 = 50;

/// How many tasks a page has at most.
const MAX_PAGE: u64 = 100;

/// The events of a task with their numbers.
pub(super) type Events = BoxStream<'static, (u64, StreamEvent)>;

/// The operations for one client and one agent.
#[derive(Debug)]
pub(super) struct Operations {
    pub(super) workshop: Arc<Workshop>,
    pub(super) job: Job,
}

impl Operations {
    fn now(&self) -> Timestamp {
        self.job.site.clock.now()
    }

    /// Begins to work on a message.
    async fn begin(&self, request: &SendRequest) -> Result<Arc<LiveTask>, A2aError> {
        self.workshop.check_room()?;
        let message = &request.message;
        if let Some(config) = &request.configuration.task_push_notification_config {
            push::check_url(&config.url, self.job.allow_private_webhooks).await?;
        }
        match message.task_id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => self.continue_task(id, request).await,
            None => self.create_task(request).await,
        }
    }

    async fn create_task(&self, request: &SendRequest) -> Result<Arc<LiveTask>, A2aError> {
        let site = &self.job.site;
        let now = self.now();
        let input = requests::to_upp(&request.message, &*site.ids, &*site.clock)?;
        let context_id = match request.message.context_id.as_deref().filter(|id| !id.is_empty()) {
            None => site.ids.string(),
            Some(id) if is_session_id(id) && id.len() <= 128 => id.to_owned(),
            Some(_) => {
                return Err(A2aError::invalid("message.contextId: expected 1 to 128 printable characters"));
            }
        };
        let id = site.ids.string();
        let machine =
            TaskMachine::new(id.clone(), context_id, request.message.clone(), Arc::clone(&site.ids), now);
        let version = self.job.store.create(machine.task(), now).await?;
        self.add_config(&id, request).await?;
        let live = LiveTask::new(machine);
        self.workshop.start(self.job.clone(), &live, Step::Answer(input), version);
        if now.microseconds() % 100 == 0 {
            self.job.store.sweep(now).await?;
        }
        Ok(live)
    }

    /// Continues a task that waits for the client.
    async fn continue_task(&self, id: &str, request: &SendRequest) -> Result<Arc<LiveTask>, A2aError> {
        let now = self.now();
        let (stored, version) = self.job.store.load(id, now).await?.ok_or_else(|| A2aError::not_found(id))?;
        let task = stored.task;
        let message: &Message = &request.message;
        if message
            .context_id
            .as_deref()
            .is_some_and(|context| !context.is_empty() && context != task.context_id)
        {
            return Err(A2aError::invalid("message.contextId: the task belongs to another context"));
        }
        if !task.status.state.is_interrupted() {
            return Err(A2aError::new(
                ErrorKind::UnsupportedOperation,
                "the task does not wait for a message; send a message without taskId in the same context",
            ));
        }
        let decisions = requests::decisions(&task, message)?;
        let machine = TaskMachine::continued(task, message.clone(), Arc::clone(&self.job.site.ids), now);
        if !self.job.store.update(machine.task(), version, now).await? {
            return Err(A2aError::new(
                ErrorKind::UnsupportedOperation,
                "another message has continued the task at the same time",
            ));
        }
        self.add_config(id, request).await?;
        let live = LiveTask::new(machine);
        self.workshop.start(self.job.clone(), &live, Step::Decide(decisions), version + 1);
        Ok(live)
    }

    async fn add_config(&self, task_id: &str, request: &SendRequest) -> Result<(), A2aError> {
        match &request.configuration.task_push_notification_config {
            None => Ok(()),
            Some(config) => self.put_config(task_id, config.clone()).await.map(|_| ()),
        }
    }

    /// Sends a message. Waits for the end of the work unless the client does not want to.
    pub(super) async fn send(&self, request: SendRequest) -> Result<Task, A2aError> {
        let live = self.begin(&request).await?;
        let task = if request.configuration.return_immediately { live.task() } else { live.ended().await };
        Ok(task.with_history(request.configuration.history_length))
    }

    /// Sends a message and follows the work.
    pub(super) async fn stream(&self, request: SendRequest) -> Result<Events, A2aError> {
        let live = self.begin(&request).await?;
        Ok(live.follow(0).boxed())
    }

    /// Follows the work on a task: from the event after `last`, or from now on.
    pub(super) async fn subscribe(&self, id: &str, last: Option<u64>) -> Result<Events, A2aError> {
        let task = self.load(id).await?;
        match (self.workshop.find(&task.id), last) {
            (Some(live), Some(last)) => Ok(live.follow(last.saturating_add(1)).boxed()),
            (Some(live), None) if !live.has_ended() => Ok(live.follow_from_now().boxed()),
            _ if task.status.state.is_terminal() || task.status.state.is_interrupted() => {
                let message = "no server works on the task; read it with GetTask";
                Err(A2aError::new(ErrorKind::UnsupportedOperation, message))
            }
            _ => Ok(remote::follow(self.job.clone(), task).boxed()),
        }
    }

    /// The task as it is now.
    async fn load(&self, id: &str) -> Result<Task, A2aError> {
        let now = self.now();
        let (stored, _) = self.job.store.load(id, now).await?.ok_or_else(|| A2aError::not_found(id))?;
        Ok(self.current(stored, now))
    }

    /// The task as the server that works on it has it, if it is this one.
    fn current(&self, stored: StoredTask, now: Timestamp) -> Task {
        let StoredTask { mut task, alive_at, .. } = stored;
        match self.workshop.find(&task.id) {
            Some(live) if !live.has_ended() => live.task(),
            _ => {
                task.status.state = work::state_now(task.status.state, alive_at, now.microseconds());
                task
            }
        }
    }

    /// Reads a task.
    pub(super) async fn get(&self, request: TaskRequest) -> Result<Task, A2aError> {
        Ok(self.load(&request.id).await?.with_history(request.history_length))
    }

    /// Cancels a task, also one that another server works on.
    pub(super) async fn cancel(&self, id: &str) -> Result<Task, A2aError> {
        let now = self.now();
        let (stored, version) = self.job.store.load(id, now).await?.ok_or_else(|| A2aError::not_found(id))?;
        if let Some(live) = self.workshop.find(id)
            && !live.has_ended()
        {
            live.cancellation.cancel();
            let task = live.ended().await;
            return if task.status.state == TaskState::Canceled { Ok(task) } else { Err(not_cancelable()) };
        }
        if stored.task.status.state.is_terminal() {
            return Err(not_cancelable());
        }
        let mut machine = TaskMachine::stored(stored.task, Arc::clone(&self.job.site.ids));
        machine.cancel(now);
        if self.job.store.update(machine.task(), version, now).await? {
            return Ok(machine.task().clone());
        }
        Err(A2aError::new(ErrorKind::Internal, "the task was changed at the same time; try again"))
    }

    /// A page of the tasks, newest change first. Clients see at most the 1 000 newest tasks.
    pub(super) async fn list(&self, request: &ListRequest) -> Result<Value, A2aError> {
        let now = self.now();
        let state = request.state()?;
        let after = match &request.status_timestamp_after {
            None => None,
            Some(text) => {
                Some(text.parse::<Timestamp>().map_err(|error| A2aError::invalid(error.to_string()))?)
            }
        };
        let size = match request.page_size {
            None | Some(0) => PAGE,
            Some(size @ 1..=MAX_PAGE) => size,
            Some(_) => return Err(A2aError::invalid(format!("pageSize: expected 1 to {MAX_PAGE}"))),
        };
        let start: usize = match request.page_token.as_deref() {
            None | Some("") => 0,
            Some(token) => {
                token.parse().map_err(|_| A2aError::invalid("pageToken: it is not one of a page"))?
            }
        };
        let found = self.job.store.list(now).await?;
        let tasks = found.into_iter().map(|stored| self.current(stored, now));
        let mut tasks: Vec<Task> = tasks
            .filter(|task| {
                request.context_id.as_deref().is_none_or(|id| id.is_empty() || id == task.context_id)
            })
            .filter(|task| state.is_none_or(|state| state == task.status.state))
            .filter(|task| {
                after.is_none_or(|after| {
                    task.status.timestamp.parse().is_ok_and(|time: Timestamp| time >= after)
                })
            })
            .collect();
        tasks.sort_by(|first, second| second.status.timestamp.cmp(&first.status.timestamp));
        let total = tasks.len();
        let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        let next = if end < total { end.to_string() } else { String::new() };
        let page: Vec<Task> = tasks
            .into_iter()
            .skip(start)
            .take(end.saturating_sub(start))
            .map(|task| {
                let mut task = task.with_history(request.history_length);
                if !request.include_artifacts {
                    task.artifacts.clear();
                }
                task
            })
            .collect();
        Ok(json!({ "tasks": page, "nextPageToken": next, "pageSize": size, "totalSize": total }))
    }

    /// Adds a webhook, or replaces the one with its id.
    pub(super) async fn create_config(&self, config: PushConfig) -> Result<PushConfig, A2aError> {
        let task = self.load(&config.task_id).await?;
        push::check_url(&config.url, self.job.allow_private_webhooks).await?;
        self.put_config(&task.id, config).await
    }

    async fn put_config(&self, task_id: &str, config: PushConfig) -> Result<PushConfig, A2aError> {
        let id = if config.id.is_empty() { self.job.site.ids.string() } else { config.id };
        if id.len() > 128 {
            return Err(A2aError::invalid("id: expected at most 128 bytes"));
        }
        let config = PushConfig { id, task_id: task_id.to_owned(), ..config };
        let change = |configs: &mut Vec<PushConfig>| {
            configs.retain(|other| other.id != config.id);
            configs.push(config.clone());
        };
        self.job.store.change_configs(task_id, self.now(), change).await?;
        Ok(config)
    }

    /// The webhooks of a task.
    pub(super) async fn configs(&self, task_id: &str) -> Result<Vec<PushConfig>, A2aError> {
        let task = self.load(task_id).await?;
        self.job.store.configs(&task.id, self.now()).await
    }

    /// A webhook; without an id the first one.
    pub(super) async fn config(&self, request: &ConfigRequest) -> Result<PushConfig, A2aError> {
        let configs = self.configs(&request.task_id).await?;
        let mut found = configs.into_iter().filter(|config| request.id.is_empty() || config.id == request.id);
        found.next().ok_or_else(|| {
            A2aError::new(ErrorKind::TaskNotFound, "the task has no such webhook; create one first")
        })
    }

    /// Deletes a webhook. No effect if there is none.
    pub(super) async fn delete_config(&self, request: &ConfigRequest) -> Result<(), A2aError> {
        let task = self.load(&request.task_id).await?;
        let change = |configs: &mut Vec<PushConfig>| configs.retain(|config| config.id != request.id);
        self.job.store.change_configs(&task.id, self.now(), change).await
    }
}

fn not_cancelable() -> A2aError {
    A2aError::new(ErrorKind::TaskNotCancelable, "the task has ended")
}
