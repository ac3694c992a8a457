//! The open tool round of a saved state: results that the records of the run contain are not written again.

use std::collections::{HashMap, VecDeque};

use crate::machine::run_totals::{Mark, RunTotals};
use crate::machine::state::{Phase, RunState};
use crate::types::action::CallState;
use turntree_core::message::{ToolExecution, ToolResult};

/// Takes the results that records of the run contain out of the open round. Returns the index of the call and of the
/// record of each.
///
/// A round writes its state after each call. With the results, the size of these states would grow with the square of the
/// number of calls.
pub(super) fn take_answers(state: &mut RunState, totals: &RunTotals, mark: Mark) -> Vec<(usize, usize)> {
    let slots = match &mut state.phase {
        Phase::Tools(round) | Phase::Results(round) => &mut round.slots,
        _ => return Vec::new(),
    };
    // The records of a round are among the last ones of the run.
    let start = mark.executions.saturating_sub(slots.len());
    let mut records: HashMap<&str, VecDeque<usize>> = HashMap::new();
    let last = totals.executions.take(mark.executions).skip(start);
    for (index, execution) in (start..).zip(&last) {
        records.entry(&execution.tool_call_id).or_default().push_back(index);
    }
    let mut answered = Vec::new();
    for (call, slot) in slots.iter_mut().enumerate() {
        let CallState::Answered(result) = slot else { continue };
        let Some(candidates) = records.get_mut(result.tool_call_id.as_str()) else { continue };
        let Some(record) = candidates.front().copied() else { continue };
        if totals.executions.get(record).is_some_and(|execution| result_of(execution) == *result) {
            candidates.pop_front();
            answered.push((call, record));
            *slot = CallState::Waiting;
        }
    }
    answered
}

/// Puts the results back.
///
/// # Errors
/// A call or a record does not exist.
pub(super) fn restore_answers(
    state: &mut RunState,
    answered: &[(usize, usize)],
    totals: &RunTotals,
) -> Result<(), &'static str> {
    if answered.is_empty() {
        return Ok(());
    }
    let (Phase::Tools(round) | Phase::Results(round)) = &mut state.phase else {
        return Err("the run has results and no open tool round");
    };
    for (call, record) in answered {
        let slot = round.slots.get_mut(*call).ok_or("the tool round has fewer calls than results")?;
        let record = totals.executions.get(*record).ok_or("the run has fewer tool records than results")?;
        *slot = CallState::Answered(result_of(record));
    }
    Ok(())
}

fn result_of(execution: &ToolExecution) -> ToolResult {
    let result = ToolResult::success(&*execution.tool_call_id, execution.result.clone());
    if execution.is_error { ToolResult { is_error: Some(true), ..result } } else { result }
}
