//! One run of an agent: its request, its output, its control.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use turntree_agents::driver::AgentStream;
use turntree_agents::host::RunContext;
use turntree_agents::types::approval_required;
use turntree_agents::{Agent, Session, SessionError, Toolset};
use turntree_core::ids::RandomIds;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Message, ToolDefinition, Turn};
use turntree_core::principal::Principal;
use turntree_core::runtime;
use turntree_upp::llm::Input;
use turntree_upp::{StopReason, System, UppError};

use super::client_tools::ClientTools;
use super::output::{OutputTranslator, PlanReporter, error_of};
use super::registry::ServedAgent;
use crate::session::{AgentOutput, ToolOutcome};
use crate::types::{ErrorCode, ErrorDetails};

/// How many pieces of output may wait for the wire. The model's stream is read no faster than the wire writes.
const CAPACITY: usize = 64;

/// What a run continues.
#[derive(Debug, Clone)]
pub enum RunInput {
    /// A conversation that the client keeps. Without input, the model continues from the history.
    Messages {
        /// The earlier messages.
        history: History,
        /// The new messages.
        input: Vec<Arc<Message>>,
    },
    /// A conversation of the server: the run is a part of it, and is saved with it.
    Session {
        /// The session, with all messages before the input.
        session: Session,
        /// The new message.
        input: Arc<Message>,
    },
    /// The unfinished run of a session.
    Resume {
        /// The session.
        session: Session,
    },
}

impl RunInput {
    const fn session(&self) -> Option<&Session> {
        match self {
            Self::Messages { .. } => None,
            Self::Session { session, .. } | Self::Resume { session } => Some(session),
        }
    }
}

/// What one run has in addition to its agent.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Added to the system prompt of the agent, each as a paragraph.
    pub instructions: Vec<String>,
    /// Tools that the client runs.
    pub client_tools: Vec<ToolDefinition>,
    /// The JSON Schema of the output. Replaces that of the agent.
    pub structure: Option<Arc<RawJson>>,
    /// Parameters for the model, in the vendor's words. They replace those of the agent with the same names.
    pub params: RawObject,
    /// The metadata of the run.
    pub metadata: Arc<RawObject>,
    /// Who asks. Tools see it.
    pub principal: Option<Principal>,
}

/// A request for a run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The agent.
    pub agent: Arc<ServedAgent>,
    /// What the run continues.
    pub input: RunInput,
    /// What it has in addition.
    pub options: RunOptions,
}

/// A run: a stream of its output, which ends with [`AgentOutput::Done`] or [`AgentOutput::Failed`]; after
/// [`RunControl::cancel`] it ends without either.
///
/// The run is a task of its own: it continues while nobody reads, until [`CAPACITY`] pieces of output wait.
///
/// # Cancel safety
/// Dropping it cancels the run with its tools and sub-agents. A session keeps what there is of the answer.
pub struct AgentRun {
    outputs: mpsc::Receiver<AgentOutput>,
    control: RunControl,
    finished: Arc<OnceLock<Finished>>,
}

/// What a run has at its end.
#[derive(Debug)]
struct Finished {
    turn: Arc<Turn>,
    stop_reason: Option<StopReason>,
}

/// Controls a run. Cloning controls the same run.
#[derive(Debug, Clone)]
pub struct RunControl {
    cancellation: CancellationToken,
    client_tools: ClientTools,
}

impl RunControl {
    /// Gives the result of a tool that the client has run. Returns false if no call with this id waits.
    pub fn resolve(&self, outcome: ToolOutcome) -> bool {
        self.client_tools.resolve(outcome)
    }

    /// Cancels the run with its tools and sub-agents. A session keeps what there is of the answer.
    pub fn cancel(&self) {
        self.cancellation.cancel();
    }
}

impl AgentRun {
    /// Starts a run.
    pub fn start(request: RunRequest) -> Self {
        let (sender, outputs) = mpsc::channel(CAPACITY);
        let RunRequest { agent: served, input, options } = request;
        let client_tools = ClientTools::new(options.client_tools.clone(), &sender);
        let control = RunControl { cancellation: CancellationToken::new(), client_tools };
        let agent = agent_of_run(served.agent(), &options, &control.client_tools);
        let finished = Arc::new(OnceLock::new());
        let work = Work {
            agent: agent.clone(),
            input,
            outputs: sender.clone(),
            control: control.clone(),
            principal: options.principal,
            finished: Arc::clone(&finished),
        };
        let running = served.host().run(
            agent,
            options.metadata,
            Box::new(move |context| Box::pin(work.perform(context))),
        );
        let run = async move {
            if let Err(error) = running.await {
                let details = ErrorDetails::new(ErrorCode::AgentOffline, error.to_string());
                // The wire has gone: nobody reads the error.
                let _ = sender.send(AgentOutput::Failed(Box::new(details))).await;
            }
        };
        runtime::spawn(run).detach();
        Self { outputs, control, finished }
    }

    /// Controls the run.
    pub const fn control(&self) -> &RunControl {
        &self.control
    }

    /// The turn, after the run has ended without an error.
    pub fn turn(&self) -> Option<&Arc<Turn>> {
        self.finished.get().map(|finished| &finished.turn)
    }

    /// Why the last model call has stopped, after the run has ended without an error.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.finished.get()?.stop_reason
    }

    /// The next piece of output; `None` after the end.
    ///
    /// # Cancel safety
    /// No output is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<AgentOutput> {
        self.outputs.recv().await
    }

    /// The next piece of output if there is one now.
    pub fn try_next(&mut self) -> Option<AgentOutput> {
        self.outputs.try_recv().ok()
    }
}

impl Stream for AgentRun {
    type Item = AgentOutput;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentOutput>> {
        self.outputs.poll_recv(context)
    }
}

impl Drop for AgentRun {
    fn drop(&mut self) {
        self.control.cancel();
    }
}

impl fmt::Debug for AgentRun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AgentRun").field("control", &self.control).finish_non_exhaustive()
    }
}

/// The agent of one run: that which is served, with what the request adds.
fn agent_of_run(agent: &Agent, options: &RunOptions, client_tools: &ClientTools) -> Agent {
    let RunOptions { instructions, structure, params, .. } = options;
    if instructions.is_empty() && structure.is_none() && params.is_empty() && client_tools.is_empty() {
        return agent.clone();
    }
    let id = Arc::clone(agent.id());
    agent.with(&RandomIds, |changed| {
        changed.id = Some(id);
        if !instructions.is_empty() {
            changed.system = Some(Arc::new(with_instructions(changed.system.as_deref(), instructions)));
        }
        if let Some(structure) = structure {
            changed.structure = Some(Arc::clone(structure));
        }
        if !params.is_empty() {
            let merged = Arc::make_mut(&mut changed.params);
            for (name, value) in params.iter() {
                merged.insert(name, value.clone());
            }
        }
        if !client_tools.is_empty() {
            changed.toolsets.push(Arc::new(client_tools.clone()) as Arc<dyn Toolset>);
        }
    })
}

fn with_instructions(system: Option<&System>, instructions: &[String]) -> System {
    let added = instructions.join("\n\n");
    system.map_or_else(|| System::Text(added.clone()), |system| system.with_text(&added))
}

/// What the application's host performs.
struct Work {
    agent: Agent,
    input: RunInput,
    outputs: mpsc::Sender<AgentOutput>,
    control: RunControl,
    principal: Option<Principal>,
    finished: Arc<OnceLock<Finished>>,
}

impl Work {
    /// Runs the agent and sends its output.
    async fn perform(self, context: RunContext) {
        let Self { agent, input, outputs, control, finished, principal } = self;
        let context = RunContext {
            cancellation: Some(control.cancellation.clone()),
            sub_agent_events: true,
            principal,
            ..context
        };
        let session = input.session().cloned();
        let failed = |error: &UppError| AgentOutput::Failed(Box::new(error_of(error, session.as_ref())));
        let mut plans = PlanReporter::default();
        let mut stream = match open(&agent, input, context) {
            Ok(stream) => stream,
            Err(error) => {
                // The wire has gone: nobody reads the error.
                let _ = outputs.send(failed(&error)).await;
                return;
            }
        };
        let is_structured = agent.options().structure.is_some();
        let mut translator = OutputTranslator::new(control.client_tools.clone(), is_structured);
        while let Some(event) = stream.next().await {
            let (plan, output) = match event {
                Ok(event) => (plans.after(&event), translator.translate(event)),
                Err(error) => (Vec::new(), Some(failed(&error))),
            };
            for output in plan.into_iter().chain(output) {
                if outputs.send(output).await.is_err() {
                    // The run ends with what it has.
                    control.cancel();
                }
            }
        }
        let last = match stream.turn().await {
            Ok(done) => {
                let mut last: Vec<AgentOutput> = plans.finish().into_iter().collect();
                last.extend(translator.finish(&done));
                // Set once: a run has one turn.
                let _ = finished.set(Finished { turn: done, stop_reason: stream.stop_reason() });
                last
            }
            // The stream of a session's run that waits for approval ends without an error.
            Err(error) if approval_required(&error).is_some_and(|asked| asked.session_id.is_some()) => {
                vec![failed(&error)]
            }
            Err(_) => return,
        };
        if control.cancellation.is_cancelled() {
            return;
        }
        for output in last {
            if outputs.send(output).await.is_err() {
                return;
            }
        }
    }
}

/// The stream of a run that has not started.
fn open(agent: &Agent, input: RunInput, context: RunContext) -> Result<AgentStream, UppError> {
    match input {
        RunInput::Messages { history, input } => {
            let inputs = input.into_iter().map(Input::Message);
            let (machine, driver) = agent.prepare_all(history, inputs, context)?;
            Ok(AgentStream::new(machine, driver))
        }
        RunInput::Session { session, input } => {
            session.with_agent(agent.clone()).stream(input, context).map_err(SessionError::into)
        }
        RunInput::Resume { session } => {
            session.with_agent(agent.clone()).resume_stream(context).map_err(SessionError::into)
        }
    }
}
