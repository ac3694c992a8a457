//! The set of hooks that a host implements.

use bitflags::bitflags;

bitflags! {
    /// The hooks that a host implements. The driver does not call the others and prepares nothing for them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct HookSet: u32 {
        /// [`Host::on_tool_call`](crate::host::Host::on_tool_call).
        const TOOL_CALL = 1;
        /// [`Host::on_before_call`](crate::host::Host::on_before_call).
        const BEFORE_CALL = 1 << 1;
        /// [`Host::on_after_call`](crate::host::Host::on_after_call).
        const AFTER_CALL = 1 << 2;
        /// [`Host::on_tool_error`](crate::host::Host::on_tool_error).
        const TOOL_ERROR = 1 << 3;
        /// [`Host::on_max_iterations`](crate::host::Host::on_max_iterations).
        const MAX_ITERATIONS = 1 << 4;
        /// [`Host::on_step_start`](crate::host::Host::on_step_start).
        const STEP_START = 1 << 5;
        /// [`Host::on_act`](crate::host::Host::on_act).
        const ACT = 1 << 6;
        /// [`Host::on_observe`](crate::host::Host::on_observe).
        const OBSERVE = 1 << 7;
        /// [`Host::on_step_end`](crate::host::Host::on_step_end).
        const STEP_END = 1 << 8;
        /// [`Host::stop_condition`](crate::host::Host::stop_condition).
        const STOP_CONDITION = 1 << 9;
        /// [`Host::on_complete`](crate::host::Host::on_complete).
        const COMPLETE = 1 << 10;
        /// [`Host::on_error`](crate::host::Host::on_error).
        const ERROR = 1 << 11;
        /// [`Host::checkpoint`](crate::host::Host::checkpoint) at the boundaries `StepEnded` and `Planned`.
        const CHECKPOINT_STEPS = 1 << 12;
        /// [`Host::checkpoint`](crate::host::Host::checkpoint) at the boundaries `Answered` and `ToolFinished`.
        const CHECKPOINT_WITHIN_STEPS = 1 << 13;
        /// [`Host::changed_metadata`](crate::host::Host::changed_metadata).
        const METADATA = 1 << 14;
        /// [`Host::on_reason`](crate::host::Host::on_reason).
        const REASON = 1 << 15;
        /// [`Host::check_answer`](crate::host::Host::check_answer).
        const CHECK_ANSWER = 1 << 16;
        /// [`Host::system_prompt`](crate::host::Host::system_prompt).
        const SYSTEM_PROMPT = 1 << 17;
        /// [`Host::validate_output`](crate::host::Host::validate_output).
        const VALIDATE_OUTPUT = 1 << 18;
        /// The hooks of tool use. Models without an agent have these.
        const TOOL_USE = Self::TOOL_CALL.bits() | Self::BEFORE_CALL.bits() | Self::AFTER_CALL.bits()
            | Self::TOOL_ERROR.bits() | Self::MAX_ITERATIONS.bits();
    }
}
