//! The daemon role: this process connects to a router, and offers agents there.
//!
//! One connection has one session per agent. A lost connection is made again with growing pauses, for as long as the
//! daemon runs; responses continue meanwhile.
//!
//! Spec: UAMP-1.0 §10.2

mod pump;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use turntree_core::runtime;
use turntree_core::secret::Secret;
use turntree_server::WebSocket;
use url::Url;

use self::pump::pump;
use crate::client::ClientError;
use crate::client::socket::{Socket, connect, websocket_url};
use crate::service::Site;
use crate::types::{ErrorCode, ErrorDetails};
use crate::wires::uamp::{DialedAgents, Parting, UampLimits};

/// The pause before the first attempt to connect again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How a daemon connects.
#[derive(Debug, Clone)]
pub struct DialOptions {
    /// The URL of the router, `http://`, `https://`, `ws://` or `wss://`.
    pub url: String,
    /// The bearer token; it is sent with the handshake and with each `session.create`.
    pub token: Option<Secret>,
    /// The limits on sessions.
    pub limits: UampLimits,
}

impl DialOptions {
    /// A daemon of the router at a URL, without a token.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), token: None, limits: UampLimits::default() }
    }
}

/// What a daemon does now.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Not all agents have sessions.
    Connecting,
    /// All agents have sessions.
    Ready,
    /// It has ended, for this reason.
    Ended(Option<ClientError>),
}

/// Agents of this process at a router. Dropping it ends their sessions.
pub struct Daemon {
    state: watch::Receiver<State>,
    leave: CancellationToken,
}

impl Daemon {
    /// Connects the agents of a site to a router, and waits until all have sessions.
    ///
    /// # Errors
    /// The URL is not one of a server, the router cannot be reached, or it refuses the connection or an agent.
    pub async fn dial(site: Site, options: DialOptions) -> Result<Self, ClientError> {
        let url = websocket_url(&options.url)?;
        let leave = CancellationToken::new();
        let (sender, mut state) = watch::channel(State::Connecting);
        let agents = DialedAgents::new(Arc::new(site), options.token.clone(), options.limits);
        let work = Work { url, token: options.token, agents, state: sender, leave: leave.clone() };
        runtime::spawn(work.run()).detach();
        let daemon = Self { state: state.clone(), leave };
        let reached = state.wait_for(|state| *state != State::Connecting).await;
        match reached.as_deref() {
            Ok(State::Ended(error)) => Err(error.clone().unwrap_or(ClientError::Closed)),
            Ok(_) => Ok(daemon),
            Err(_) => Err(ClientError::Closed),
        }
    }

    /// Waits until the daemon ends.
    ///
    /// # Errors
    /// The router refuses the connection or an agent for good.
    ///
    /// # Cancel safety
    /// The daemon continues if the future is dropped.
    pub async fn ended(&self) -> Result<(), ClientError> {
        let mut state = self.state.clone();
        match state.wait_for(|state| matches!(state, State::Ended(_))).await.as_deref() {
            Ok(State::Ended(Some(error))) => Err(error.clone()),
            // Without its task, the daemon has ended.
            _ => Ok(()),
        }
    }

    /// Ends the sessions and the connection.
    pub async fn close(&self) {
        self.leave.cancel();
        // What the daemon ended with before is known to those who wait for its end.
        drop(self.ended().await);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.leave.cancel();
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Daemon").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

/// The task of a daemon.
struct Work {
    url: Url,
    token: Option<Secret>,
    agents: DialedAgents,
    state: watch::Sender<State>,
    leave: CancellationToken,
}

impl Work {
    async fn run(mut self) {
        let mut was_ready = false;
        let mut pause = FIRST_PAUSE;
        loop {
            // Boxed: it holds the buffers of the handshake.
            let Some(error) = Box::pin(self.connect_once(&mut was_ready, &mut pause)).await else {
                self.state.send_replace(State::Ended(None));
                return;
            };
            if !was_ready || is_final(&error) {
                self.state.send_replace(State::Ended(Some(error)));
                return;
            }
            log::info!(target: "turntree.uamp", "{error}; the router is dialed again in {pause:?}");
            let wait = pin!(runtime::sleep(pause));
            if let Either::Left(_) = select(pin!(self.leave.cancelled()), wait).await {
                self.state.send_replace(State::Ended(None));
                return;
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Makes one connection and serves it. Returns why it ended; `None` if the daemon leaves.
    async fn connect_once(&mut self, was_ready: &mut bool, pause: &mut Duration) -> Option<ClientError> {
        let made = {
            let connecting = pin!(connect(&self.url, self.token.as_ref()));
            match select(pin!(self.leave.cancelled()), connecting).await {
                Either::Left(_) => return None,
                Either::Right((made, _)) => made,
            }
        };
        match made {
            Err(error) => Some(error),
            Ok(socket) => match self.serve(socket, was_ready, pause).await {
                Parting::Left => None,
                Parting::Lost => Some(ClientError::Connection {
                    reason: "the connection to the router was lost".to_owned(),
                }),
                Parting::Refused(error) => Some(ClientError::Server(error)),
            },
        }
    }

    async fn serve(&mut self, socket: Socket, was_ready: &mut bool, pause: &mut Duration) -> Parting {
        let (application, face) = WebSocket::pair(None);
        let count = self.agents.count();
        let mut open = self.agents.open();
        let state = &self.state;
        // Says when all agents have sessions; the pauses then begin anew.
        let watching = async {
            while open.wait_for(|open| *open == count).await.is_ok() {
                (*was_ready, *pause) = (true, FIRST_PAUSE);
                state.send_if_modified(|state| std::mem::replace(state, State::Ready) != State::Ready);
                if open.wait_for(|open| *open != count).await.is_err() {
                    break;
                }
            }
            std::future::pending::<Parting>().await
        };
        let leave = self.leave.clone();
        let serving = pin!(self.agents.serve(application, async move { leave.cancelled().await }));
        let pumping = pin!(pump(socket, face));
        let both = pin!(async {
            match select(serving, pumping).await {
                // What was written last is sent before the connection is closed.
                Either::Left((parting, pumping)) => {
                    pumping.await;
                    parting
                }
                Either::Right(((), serving)) => serving.await,
            }
        });
        match select(both, pin!(watching)).await {
            Either::Left((parting, _)) | Either::Right((parting, _)) => parting,
        }
    }
}

/// Whether another attempt would end as this one did.
fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { status, .. } => {
            (400..500).contains(status) && ![408, 425, 429].contains(status)
        }
        ClientError::Server(details) => is_final_code(details),
        _ => false,
    }
}

fn is_final_code(details: &ErrorDetails) -> bool {
    matches!(
        details.code,
        ErrorCode::Unauthorized
            | ErrorCode::Forbidden
            | ErrorCode::AgentNotFound
            | ErrorCode::VersionMismatch
            | ErrorCode::InvalidEvent
    )
}
