//! What the hooks of a run see, and may change. UAP-1.0 §10.1.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::host::host::Host;
use crate::middleware::budget::{Accounts, Spent};
use crate::types::identity::{AgentInfo, RunIdentity};
use crate::types::middleware_state::MiddlewareState;
use turntree_core::message::message::History;
use turntree_core::message::{Message, TokenUsage};
use turntree_core::time::{Clock as _, SystemClock, Timestamp};
use turntree_upp::middleware::State;

/// One run, as its middleware sees it. All hooks of a run share it.
#[derive(Debug)]
pub struct MiddlewareContext {
    /// Whose run.
    pub agent: Arc<AgentInfo>,
    /// The run, and the session that it belongs to.
    pub identity: Arc<RunIdentity>,
    /// Whose model; in errors.
    pub provider: Arc<str>,
    /// What middlewares keep with the run: `metadata`, by name, and each one's own by type.
    pub state: State,
    /// What middleware keeps with the session; lives as long as that.
    pub middleware_state: Option<Arc<MiddlewareState>>,
    conversation: Mutex<Conversation>,
    accounts: Mutex<Accounts>,
    /// Not held: the application may keep the context longer than the run.
    host: HostOfRun,
}

/// The application; says nothing of itself.
#[derive(Clone)]
struct HostOfRun(Weak<dyn Host>);

impl std::fmt::Debug for HostOfRun {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Host")
    }
}

/// What the run is about.
#[derive(Debug, Clone, Default)]
struct Conversation {
    input: Option<Arc<Message>>,
    history: History,
    is_changed: bool,
}

/// What a run goes on from, as the hooks left it.
pub(crate) struct RunStart {
    pub(crate) input: Option<Arc<Message>>,
    pub(crate) history: History,
    pub(crate) is_changed: bool,
}

impl MiddlewareContext {
    /// The context of a run that has not begun, or goes on.
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
            accounts: Mutex::default(),
            host: HostOfRun(Arc::downgrade(host)),
        }
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the run answers; `None` where it goes on from the history alone.
    pub fn input(&self) -> Option<Arc<Message>> {
        self.conversation().input.clone()
    }

    /// What was said before.
    pub fn history(&self) -> History {
        self.conversation().history.clone()
    }

    /// Replaces the input; in `before`. The turn starts with it. Without effect on a run that goes on: its input was said.
    pub fn set_input(&self, input: Arc<Message>) {
        let mut conversation = self.conversation();
        conversation.is_changed = true;
        conversation.input = Some(input);
    }

    /// Replaces what was said before; in `before`. What is stored stays as it is.
    pub fn set_history(&self, history: History) {
        let mut conversation = self.conversation();
        conversation.is_changed = true;
        conversation.history = history;
    }

    /// Starts anew with what a run is about.
    pub(crate) fn begin(&self, input: Option<Arc<Message>>, history: History) {
        *self.conversation() = Conversation { input, history, is_changed: false };
    }

    pub(crate) fn run_start(&self) -> RunStart {
        let Conversation { input, history, is_changed } = self.conversation().clone();
        RunStart { input, history, is_changed }
    }

    /// The application, while the run lasts.
    pub fn host(&self) -> Option<Arc<dyn Host>> {
        self.host.0.upgrade()
    }

    /// The time, by the application's clock.
    pub fn now(&self) -> Timestamp {
        self.host().map_or_else(|| SystemClock.now(), |host| host.clock().now())
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this run has spent.
    pub fn spent(&self) -> Spent {
        self.accounts().of_run(self.now())
    }

    /// What the session has spent with this run; without a session, what the run has.
    pub fn spent_by_session(&self) -> Spent {
        self.accounts().of_session(self.now())
    }

    /// Opens the books: what the run had spent before it was taken up again, and what the session had.
    pub(crate) fn open(&self, before: Spent) {
        let spent = self.middleware_state.as_ref().and_then(|state| state.get(Spent::KEY));
        let by_session = spent.and_then(|raw| raw.to().ok()).unwrap_or_default();
        *self.accounts() = Accounts::new(before, by_session, self.now());
    }

    /// A step of the run is about to call its model.
    pub(crate) fn call(&self, step: u32) {
        self.accounts().call(step);
    }

    /// Whether the step that is about to call its model has called it before.
    pub(crate) fn calls_again(&self) -> bool {
        self.accounts().calls_again()
    }

    /// Counts what a call of the model cost.
    pub(crate) fn count(&self, usage: &TokenUsage) {
        self.accounts().add(usage);
    }

    /// Writes what the session has spent into its middleware state.
    pub(crate) fn store_usage(&self) {
        let Some(state) = &self.middleware_state else { return };
        let spent = self.spent_by_session();
        state.set(Spent::KEY, &spent);
    }
}
