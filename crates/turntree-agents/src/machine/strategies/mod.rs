//! The strategies of the machine: which transition follows each event of a run.
//!
//! A strategy implements `StrategyPolicy`: the machine calls it after each event (a step began, the model responded, the
//! tools finished) and receives a `Transition`. A strategy has a small serializable state and no I/O. Its `Purpose`
//! determines the content of a request and where the response is stored. Strategies can add ephemeral messages: they are
//! sent to the model, but they are not part of turns and threads (decision A11).
//!
//! Spec: UAP-1.0 §5

pub(crate) mod custom;
pub(crate) mod loop_;
pub(crate) mod observation;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod react;
pub(crate) mod state;

pub use loop_::LoopOptions;
pub use observation::ObservationFormat;
pub use plan::PlanOptions;
pub use react::{ACTION_PROMPT, REASONING_PROMPT, ReactOptions};
