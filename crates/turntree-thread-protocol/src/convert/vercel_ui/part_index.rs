//! Finds the parts of a message by id, in logarithmic time however many parts there are.

use std::collections::{BTreeSet, HashMap};

use super::message::{DYNAMIC_TOOL, UiPart};
use turntree_core::json::RawJson;

/// The indices of the parts of a message that later chunks refer to.
#[derive(Debug, Clone, Default)]
pub(super) struct PartIndex {
    /// The tool parts of each call.
    calls: HashMap<String, CallParts>,
    /// Tool parts without a result.
    open: BTreeSet<usize>,
    /// Tool parts by the id of their approval.
    approvals: HashMap<String, BTreeSet<usize>>,
    /// The first data part of each type and id.
    data: HashMap<(String, String), usize>,
}

/// The tool parts of one call in order.
#[derive(Debug, Clone, Default)]
struct CallParts {
    named: Vec<usize>,
    dynamic: Vec<usize>,
}

impl CallParts {
    fn of_kind(&mut self, dynamic: bool) -> &mut Vec<usize> {
        if dynamic { &mut self.dynamic } else { &mut self.named }
    }
}

impl PartIndex {
    pub(super) fn of(parts: &[UiPart]) -> Self {
        let mut index = Self::default();
        for (position, part) in parts.iter().enumerate() {
            index.add(position, part);
        }
        index
    }

    /// Adds a part at the end of the message.
    pub(super) fn add(&mut self, position: usize, part: &UiPart) {
        if part.is_tool() {
            if let Some(id) = &part.tool_call_id {
                let call = self.calls.entry(id.clone()).or_default();
                call.of_kind(part.kind == DYNAMIC_TOOL).push(position);
            }
            if let Some(id) = approval_id(part) {
                self.approvals.entry(id).or_default().insert(position);
            }
            self.state_changed(position, part);
        } else if let Some(key) = data_key(part) {
            self.data.entry(key).or_insert(position);
        }
    }

    /// Removes the last part of the message.
    pub(super) fn remove(&mut self, position: usize, part: &UiPart) {
        if part.is_tool() {
            if let Some(call) = part.tool_call_id.as_ref().and_then(|id| self.calls.get_mut(id)) {
                call.of_kind(part.kind == DYNAMIC_TOOL).pop_if(|last| *last == position);
            }
            self.approval_removed(position, part);
            self.open.remove(&position);
        } else if let Some(key) = data_key(part)
            && self.data.get(&key) == Some(&position)
        {
            self.data.remove(&key);
        }
    }

    /// Updates whether a call is open.
    pub(super) fn state_changed(&mut self, position: usize, part: &UiPart) {
        let is_open = matches!(
            part.state.as_deref(),
            Some("input-available" | "approval-requested" | "approval-responded")
        );
        if is_open {
            self.open.insert(position);
        } else {
            self.open.remove(&position);
        }
    }

    /// Forgets the approval of a part, before it gets another one.
    pub(super) fn approval_removed(&mut self, position: usize, part: &UiPart) {
        let Some(id) = approval_id(part) else { return };
        if let Some(parts) = self.approvals.get_mut(&id) {
            parts.remove(&position);
        }
    }

    pub(super) fn approval_added(&mut self, position: usize, approval_id: &str) {
        self.approvals.entry(approval_id.to_owned()).or_default().insert(position);
    }

    /// The first part with this approval.
    pub(super) fn of_approval(&self, approval_id: &str) -> Option<usize> {
        self.approvals.get(approval_id)?.first().copied()
    }

    /// The first part of a call from `begin`; with `dynamic`, of this kind only.
    pub(super) fn call_from(&self, begin: usize, id: &str, dynamic: Option<bool>) -> Option<usize> {
        let call = self.calls.get(id)?;
        let first = |parts: &[usize]| parts.get(parts.partition_point(|part| *part < begin)).copied();
        match dynamic {
            Some(true) => first(&call.dynamic),
            Some(false) => first(&call.named),
            None => first(&call.dynamic).into_iter().chain(first(&call.named)).min(),
        }
    }

    /// The last part of a call.
    pub(super) fn last_of_call(&self, id: &str) -> Option<usize> {
        let call = self.calls.get(id)?;
        call.dynamic.last().max(call.named.last()).copied()
    }

    /// The tool parts without a result, in order.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = usize> {
        self.open.iter().copied()
    }

    /// The first data part with this type and id.
    pub(super) fn of_data(&self, kind: &str, id: &str) -> Option<usize> {
        self.data.get(&(kind.to_owned(), id.to_owned())).copied()
    }
}

fn approval_id(part: &UiPart) -> Option<String> {
    part.approval.as_ref()?.get("id").and_then(RawJson::as_string)
}

fn data_key(part: &UiPart) -> Option<(String, String)> {
    let id = part.id.as_ref().filter(|_| part.kind.starts_with("data-"))?;
    Some((part.kind.clone(), id.clone()))
}
