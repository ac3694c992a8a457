//! The HTTP application: sessions of workflows for any face of `turntree-server`.
//!
//! | module | content |
//! |---|---|
//! | [`options`] | the settings of a service |
//! | [`runner`] | the port that performs tasks, guards and hooks; progress of tasks |
//! | `queue` | one action at a time for each session |
//! | `sessions` | creates sessions, executes actions, stores outcomes; without HTTP |
//! | `calls` | performs the calls of an action, with time limits |
//! | `approvals` | calls of tasks that wait for the decision of a person |
//! | `http`, `headers` | paths, headers and bodies |
//! | `stream` | server-sent events of a task |

mod approvals;
mod calls;
mod headers;
mod http;
pub mod options;
mod queue;
pub mod runner;
mod sessions;
mod stream;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use turntree_core::ids::IdSource;
use turntree_core::runtime::{self, Task};
use turntree_core::time::{Clock, Timestamp};
use turntree_store::StoreError;

pub use self::options::ServiceOptions;
use self::queue::SessionQueues;
pub use self::runner::{CallContext, Progress, ProgressSender, TaskRunner};
use crate::definition::Workflow;
use crate::store::SessionStore;

/// How often expired sessions are deleted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Serves workflows.
///
/// Implements [`turntree_server::Application`].
pub struct WorkflowService {
    inner: Arc<Inner>,
    sweeper: OnceLock<Task<()>>,
}

/// What requests share.
struct Inner {
    workflows: Vec<Arc<Workflow>>,
    by_name: HashMap<String, Arc<Workflow>>,
    runner: Arc<dyn TaskRunner>,
    store: SessionStore,
    options: ServiceOptions,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    queues: SessionQueues,
    openapi: serde_json::Value,
}

/// Why a service cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// There is nothing to serve.
    #[error("there are no workflows to serve; pass at least one")]
    NoWorkflows,
    /// Two workflows have one name.
    #[error("two workflows are named \"{name}\"; rename one of them")]
    DuplicateWorkflow {
        /// The name.
        name: String,
    },
    /// A setting has a value that cannot work.
    #[error("{setting}: {rule}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The rule.
        rule: &'static str,
    },
}

impl WorkflowService {
    /// Makes a service.
    ///
    /// # Errors
    /// [`ServiceError`] if there are no workflows, two of one name, or a setting cannot work.
    pub fn new(
        workflows: Vec<Arc<Workflow>>,
        runner: Arc<dyn TaskRunner>,
        store: SessionStore,
        options: ServiceOptions,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, ServiceError> {
        options.check()?;
        if workflows.is_empty() {
            return Err(ServiceError::NoWorkflows);
        }
        let mut by_name = HashMap::new();
        for workflow in &workflows {
            let name = workflow.name().to_owned();
            if by_name.insert(name.clone(), Arc::clone(workflow)).is_some() {
                return Err(ServiceError::DuplicateWorkflow { name });
            }
        }
        let openapi = crate::wire::openapi(&workflows);
        let queues = SessionQueues::new(options.queue_depth);
        let inner = Inner { workflows, by_name, runner, store, options, clock, ids, queues, openapi };
        Ok(Self { inner: Arc::new(inner), sweeper: OnceLock::new() })
    }

    /// Deletes expired sessions now. A service that gets requests does it once a minute.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        self.inner.store.sweep(self.inner.now()).await
    }

    /// The `OpenAPI` document.
    pub fn openapi(&self) -> &serde_json::Value {
        &self.inner.openapi
    }

    fn start_sweeper(&self) {
        let inner = Arc::downgrade(&self.inner);
        self.sweeper.get_or_init(|| runtime::spawn(sweep_regularly(inner)));
    }
}

async fn sweep_regularly(inner: Weak<Inner>) {
    loop {
        runtime::sleep(SWEEP_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        if let Err(error) = inner.store.sweep(inner.now()).await {
            log::warn!(target: "turntree.uaip", "expired sessions were not deleted: {error}");
        }
    }
}

impl Inner {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The only workflow, which requests need not name.
    fn only(&self) -> Option<&Arc<Workflow>> {
        self.workflows.first().filter(|_| self.workflows.len() == 1)
    }
}

impl fmt::Debug for WorkflowService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.inner.workflows.iter().map(|workflow| workflow.name()).collect();
        formatter
            .debug_struct("WorkflowService")
            .field("workflows", &names)
            .field("store", &self.inner.store)
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}
