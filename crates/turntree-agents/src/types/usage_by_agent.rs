//! The usage of the agents that a run has called, by name.
//!
//! A run that another run has started adds its usage to a [`UsageByAgent`] of that run. When the tool call that started it
//! has ended, the usage moves to the record of the call, so that it is saved with the run. The usage of a turn has the sum.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use turntree_core::json::RawJson;
use turntree_core::message::{TokenUsage, ToolExecution, Turn};

/// The member of a record of a tool call.
const OF_CALL: &str = "usageByAgent";

/// The member of the usage of a turn: an object from the names of agents to their usage.
pub const OF_TURN: &str = "byAgent";

type Usages = BTreeMap<Arc<str>, TokenUsage>;

/// The usage of runs that have ended inside a run.
#[derive(Debug, Default)]
pub struct UsageByAgent(Mutex<Usages>);

impl UsageByAgent {
    /// Adds the usage of an agent, and of the agents that worked for it: those in the usage that a strategy of the
    /// application returned, or those in the records of its tool calls.
    pub(crate) fn add<'a>(
        &self,
        agent: &Arc<str>,
        parts: impl IntoIterator<Item = &'a TokenUsage>,
        records: impl IntoIterator<Item = &'a ToolExecution>,
    ) {
        let parts: Vec<_> = parts.into_iter().collect();
        let usage = TokenUsage::aggregate(parts.iter().copied());
        let inner = parts.iter().find_map(|part| of_usage(part)).unwrap_or_else(|| of_records(records));
        let mut usages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        add_to(&mut usages, agent, usage);
        for (agent, usage) in inner {
            add_to(&mut usages, &agent, usage);
        }
    }

    /// Moves everything to the usage of the turn that a strategy of the application returned. Replaces the agents that the
    /// strategy has counted itself.
    pub(crate) fn move_to_turn(&self, turn: Arc<Turn>) -> Arc<Turn> {
        let usages = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if usages.is_empty() {
            return turn;
        }
        let mut turn = Arc::unwrap_or_clone(turn);
        let mut all = of_usage(&turn.usage).unwrap_or_default();
        all.extend(usages);
        turn.usage.extra.insert(OF_TURN, json_of(&all));
        Arc::new(turn)
    }

    /// Moves everything to the record of a call.
    pub(crate) fn move_to(&self, record: &mut ToolExecution) {
        let usages = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if !usages.is_empty() {
            record.extra.insert(OF_CALL, json_of(&usages));
        }
    }
}

/// The sum over the records of tool calls; `None` if no other agent worked.
pub(crate) fn sum<'a>(records: impl IntoIterator<Item = &'a ToolExecution>) -> Option<RawJson> {
    let usages = of_records(records);
    (!usages.is_empty()).then(|| json_of(&usages))
}

/// The agents in the usage of a turn.
fn of_usage(usage: &TokenUsage) -> Option<Usages> {
    let usages = usage.extra.get(OF_TURN)?.to::<BTreeMap<String, TokenUsage>>().ok()?;
    Some(usages.into_iter().map(|(agent, usage)| (agent.into(), usage)).collect())
}

fn of_records<'a>(records: impl IntoIterator<Item = &'a ToolExecution>) -> Usages {
    let mut sum = Usages::new();
    let of_calls = records.into_iter().filter_map(|record| record.extra.get(OF_CALL));
    for usages in of_calls.filter_map(|usages| usages.to::<BTreeMap<String, TokenUsage>>().ok()) {
        for (agent, usage) in usages {
            add_to(&mut sum, &agent.into(), usage);
        }
    }
    sum
}

fn add_to(usages: &mut Usages, agent: &Arc<str>, usage: TokenUsage) {
    match usages.get_mut(agent) {
        None => drop(usages.insert(Arc::clone(agent), usage)),
        Some(sum) => {
            let cycles = sum.cycles.iter().flatten().chain(usage.cycles.iter().flatten()).cloned().collect();
            *sum = TokenUsage { cycles: Some(cycles), ..TokenUsage::aggregate([&*sum, &usage]) };
        }
    }
}

fn json_of(usages: &Usages) -> RawJson {
    let usages: BTreeMap<&str, &TokenUsage> = usages.iter().map(|(agent, usage)| (&**agent, usage)).collect();
    RawJson::from_value(&usages).unwrap_or_default()
}
