//! The data of a run that its hooks can read and change.
//!
//! Spec: UAP-1.0 §10.1

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::host::host::Host;
use crate::middleware::budget::{BudgetTracker, BudgetUsage};
use crate::types::identity::{AgentInfo, RunIdentity};
use crate::types::middleware_state::MiddlewareState;
use turntree_core::message::message::History;
use turntree_core::message::{Message, TokenUsage};
use turntree_core::time::{Clock as _, SystemClock, Timestamp};
use turntree_upp::middleware::State;

/// The context of one run. All its hooks share it.
#[derive(Debug)]
pub struct MiddlewareContext {
    /// The agent.
    pub agent: Arc<AgentInfo>,
    /// The run and its session.
    pub identity: Arc<RunIdentity>,
    /// The model's provider, for errors.
    pub provider: Arc<str>,
    /// Values that middlewares store with the run: `metadata` by name, and one value for each type.
    pub state: State,
    /// Values that middlewares store with the session.
    pub middleware_state: Option<Arc<MiddlewareState>>,
    conversation: Mutex<Conversation>,
    budget_tracker: Mutex<BudgetTracker>,
    /// Weak, because the application may hold the context longer than the run.
    host: HostOfRun,
}

/// The host, without details in `Debug`.
#[derive(Clone)]
struct HostOfRun(Weak<dyn Host>);

impl std::fmt::Debug for HostOfRun {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Host")
    }
}

/// Input and history of the run.
#[derive(Debug, Clone, Default)]
struct Conversation {
    input: Option<Arc<Message>>,
    history: History,
    is_changed: bool,
}

/// Input and history after the hooks.
pub(crate) struct RunStart {
    pub(crate) input: Option<Arc<Message>>,
    pub(crate) history: History,
    pub(crate) is_changed: bool,
}

impl MiddlewareContext {
    /// The context of a run that begins or resumes.
    pub(crate) fn new(
        agent: Arc<AgentInfo>,
        identity: Arc<RunIdentity>,
        provider: &str,
        host: &Arc<dyn Host>,
        middleware_state: Option<Arc<MiddlewareState>>,
    ) -> Self {
        Self {
            agent,
            identity,
            provider: provider.into(),
            state: State::default(),
            middleware_state,
            conversation: Mutex::default(),
            budget_tracker: Mutex::default(),
            host: HostOfRun(Arc::downgrade(host)),
        }
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input; `None` if the model continues from the history.
    pub fn input(&self) -> Option<Arc<Message>> {
        self.conversation().input.clone()
    }

    /// The history.
    pub fn history(&self) -> History {
        self.conversation().history.clone()
    }

    /// Replaces the input, in `before`. The turn starts with the new input. Has no effect on a resumed run.
    pub fn set_input(&self, input: Arc<Message>) {
        let mut conversation = self.conversation();
        conversation.is_changed = true;
        conversation.input = Some(input);
    }

    /// Replaces the history of this run, in `before`. Stored messages do not change.
    pub fn set_history(&self, history: History) {
        let mut conversation = self.conversation();
        conversation.is_changed = true;
        conversation.history = history;
    }

    /// Sets input and history at the start of the run.
    pub(crate) fn begin(&self, input: Option<Arc<Message>>, history: History) {
        *self.conversation() = Conversation { input, history, is_changed: false };
    }

    pub(crate) fn run_start(&self) -> RunStart {
        let Conversation { input, history, is_changed } = self.conversation().clone();
        RunStart { input, history, is_changed }
    }

    /// The application, during the run.
    pub fn host(&self) -> Option<Arc<dyn Host>> {
        self.host.0.upgrade()
    }

    /// The current time of the application's clock.
    pub fn now(&self) -> Timestamp {
        self.host().map_or_else(|| SystemClock.now(), |host| host.clock().now())
    }

    fn budget_tracker(&self) -> MutexGuard<'_, BudgetTracker> {
        self.budget_tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The usage of this run.
    pub fn spent(&self) -> BudgetUsage {
        self.budget_tracker().of_run(self.now())
    }

    /// The usage of the session including this run; of the run if there is no session.
    pub fn spent_by_session(&self) -> BudgetUsage {
        self.budget_tracker().of_session(self.now())
    }

    /// Starts counting. `before` is the usage of the run before it was resumed.
    pub(crate) fn open(&self, before: BudgetUsage) {
        let spent = self.middleware_state.as_ref().and_then(|state| state.get(BudgetUsage::KEY));
        let by_session = spent.and_then(|raw| raw.to().ok()).unwrap_or_default();
        *self.budget_tracker() = BudgetTracker::new(before, by_session, self.now());
    }

    /// Called before a step calls its model.
    pub(crate) fn call(&self, step: u32) {
        self.budget_tracker().call(step);
    }

    /// True if the step has called its model before.
    pub(crate) fn calls_again(&self) -> bool {
        self.budget_tracker().calls_again()
    }

    /// Adds the usage of a model call.
    pub(crate) fn count(&self, usage: &TokenUsage) {
        self.budget_tracker().add(usage);
    }

    /// Stores the usage of the session in its middleware state.
    pub(crate) fn store_usage(&self) {
        let Some(state) = &self.middleware_state else { return };
        let spent = self.spent_by_session();
        state.set(BudgetUsage::KEY, &spent);
    }
}
