//! The connection of a client as a task, and the handles of clients, sessions and responses.
//!
//! One task owns the socket and the [`ClientCore`]. Handles send it commands; it gives events to the response of their
//! session.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;
use turntree_core::ids::RandomIds;
use turntree_core::runtime;
use turntree_core::secret::Secret;
use url::Url;

use super::core::{ClientCore, Output, ResponseInput, SessionKey};
use super::error::ClientError;
use super::socket::{Socket, connect, websocket_url};
use crate::event::{ServerEvent, SessionCreated};
use crate::session::ToolOutcome;

/// The silence after which the client asks whether the server is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The number of such questions without an answer after which the connection is lost.
const UNANSWERED: u32 = 2;

/// The pause before the first attempt to connect again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);

const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How a client connects.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The URL of a server or of an agent, `http://`, `https://`, `ws://` or `wss://`.
    pub url: String,
    /// The bearer token.
    pub token: Option<Secret>,
    /// How long a lost connection is made again. Default: 60 s, the resume window of servers.
    pub reconnect_for: Duration,
}

impl ClientOptions {
    /// A client of the server at a URL, without a token.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), token: None, reconnect_for: Duration::from_secs(60) }
    }
}

type ResponseSender = mpsc::UnboundedSender<Result<ServerEvent, ClientError>>;

type OpenedSender = oneshot::Sender<Result<(SessionKey, Box<SessionCreated>), ClientError>>;

enum Command {
    Open(Option<String>, OpenedSender),
    Run(SessionKey, Box<ResponseInput>, ResponseSender),
    Resolve(SessionKey, ToolOutcome),
    Cancel(SessionKey),
    /// Nobody reads the response any more.
    Abandon(SessionKey),
    End(SessionKey),
    Close(oneshot::Sender<()>),
}

/// A client of one server. Cloning shares its connection.
#[derive(Clone)]
pub struct UampClient {
    commands: mpsc::UnboundedSender<Command>,
}

impl UampClient {
    /// Connects to a server. Sessions survive a lost connection: it is made again, and they continue where they were.
    ///
    /// # Errors
    /// The URL is not that of a server, or the server cannot be reached or refuses the connection.
    pub async fn connect(options: ClientOptions) -> Result<Self, ClientError> {
        let url = websocket_url(&options.url)?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let (made, answered) = oneshot::channel();
        let connected = async move {
            let socket = match connect(&url, options.token.as_ref()).await {
                Ok(socket) => socket,
                Err(error) => {
                    // The caller has gone.
                    drop(made.send(Err(error)));
                    return;
                }
            };
            if made.send(Ok(())).is_err() {
                return;
            }
            let connection = Connection {
                core: ClientCore::new(options.token.clone(), Arc::new(RandomIds)),
                url,
                options,
                commands: receiver,
                opening: HashMap::new(),
                responses: HashMap::new(),
                queued: HashMap::new(),
            };
            connection.run(socket).await;
        };
        runtime::spawn(connected).detach();
        let gone = || ClientError::Connection { reason: "the task of the connection has ended".to_owned() };
        answered.await.map_err(|_| gone())??;
        Ok(Self { commands })
    }

    /// Opens a session with an agent; without a name, with the only agent of the server.
    ///
    /// # Errors
    /// The server refuses it, or the connection is lost for good.
    pub async fn session(&self, agent: Option<String>) -> Result<ClientSession, ClientError> {
        let (sender, opened) = oneshot::channel();
        self.commands.send(Command::Open(agent, sender)).map_err(|_| ClientError::Closed)?;
        let (key, created) = opened.await.map_err(|_| ClientError::Closed)??;
        Ok(ClientSession { commands: self.commands.clone(), key, created: created.into() })
    }

    /// Closes the connection; its sessions end for this client.
    pub async fn close(&self) {
        let (sender, closed) = oneshot::channel();
        if self.commands.send(Command::Close(sender)).is_ok() {
            // An error says that the connection has ended already.
            let _ = closed.await;
        }
    }
}

impl fmt::Debug for UampClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UampClient").finish_non_exhaustive()
    }
}

/// A session with an agent. Cloning shares it.
#[derive(Clone)]
pub struct ClientSession {
    commands: mpsc::UnboundedSender<Command>,
    key: SessionKey,
    created: Arc<SessionCreated>,
}

impl ClientSession {
    /// What the server has answered when the session was opened.
    pub fn created(&self) -> &SessionCreated {
        &self.created
    }

    /// The id of the session.
    pub fn id(&self) -> &str {
        self.created.session_id.as_deref().unwrap_or(&self.created.session.id)
    }

    /// Asks for a response. A session has one response at a time; one that was dropped is cancelled before the next.
    pub fn run(&self, input: ResponseInput) -> ClientResponse {
        let (sender, events) = mpsc::unbounded_channel();
        let run = Command::Run(self.key, Box::new(input), sender);
        if let Err(mpsc::error::SendError(Command::Run(_, _, sender))) = self.commands.send(run) {
            // The response is new: its receiver is here.
            let _ = sender.send(Err(ClientError::Closed));
        }
        ClientResponse { session: self.clone(), events, has_ended: false }
    }

    /// Gives the result of a tool that the server has called with `tool.call`.
    pub fn resolve(&self, outcome: ToolOutcome) {
        self.command(Command::Resolve(self.key, outcome));
    }

    /// Cancels the response. Its events end with `response.cancelled`.
    pub fn cancel(&self) {
        self.command(Command::Cancel(self.key));
    }

    /// Ends the session.
    pub fn end(&self) {
        self.command(Command::End(self.key));
    }

    /// Sends a command. A connection that has ended has no sessions that could obey.
    fn command(&self, command: Command) {
        let _ = self.commands.send(command);
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientSession").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// The events of a response, up to `response.done` or `response.cancelled`. Dropping it cancels the response.
#[derive(Debug)]
pub struct ClientResponse {
    session: ClientSession,
    events: mpsc::UnboundedReceiver<Result<ServerEvent, ClientError>>,
    has_ended: bool,
}

impl ClientResponse {
    /// The next event; `None` after the end.
    ///
    /// # Errors
    /// The response has failed; nothing follows.
    ///
    /// # Cancel safety
    /// No event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<ServerEvent, ClientError>> {
        if self.has_ended {
            return None;
        }
        // Without an end, the connection has ended, and nobody has read the request.
        let event = self.events.recv().await.unwrap_or(Err(ClientError::Closed));
        self.has_ended =
            matches!(event, Err(_) | Ok(ServerEvent::ResponseDone(_) | ServerEvent::ResponseCancelled(_)));
        Some(event)
    }
}

impl Drop for ClientResponse {
    fn drop(&mut self) {
        if !self.has_ended {
            self.session.command(Command::Abandon(self.session.key));
        }
    }
}

/// The task of a connection.
struct Connection {
    core: ClientCore,
    url: Url,
    options: ClientOptions,
    commands: mpsc::UnboundedReceiver<Command>,
    opening: HashMap<SessionKey, OpenedSender>,
    responses: HashMap<SessionKey, ResponseSender>,
    /// Requests that wait for the end of a response that nobody reads.
    queued: HashMap<SessionKey, (Box<ResponseInput>, ResponseSender)>,
}

/// Why a socket is no longer served.
enum Ending {
    /// The connection was lost.
    Lost,
    /// The client was closed, or all its handles were dropped.
    Closed(Option<oneshot::Sender<()>>),
}

/// Why the connection is not made again.
enum Parting {
    /// The time is over, or the server refuses the connection for good.
    Failed(ClientError),
    /// The client was closed, or all its handles were dropped.
    Closed(Option<oneshot::Sender<()>>),
}

/// Connects again, with growing pauses.
async fn attempts(url: Url, options: ClientOptions) -> Result<Socket, ClientError> {
    let started = tokio::time::Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match connect(&url, options.token.as_ref()).await {
            Ok(socket) => return Ok(socket),
            Err(error) => error,
        };
        let is_final = matches!(error, ClientError::Refused { status, .. } if (400..500).contains(&status));
        if is_final || started.elapsed() + pause > options.reconnect_for {
            return Err(error);
        }
        runtime::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

impl Connection {
    async fn run(mut self, first: Socket) {
        let mut socket = first;
        loop {
            match self.serve(socket).await {
                Ending::Lost => self.core.on_disconnected(),
                Ending::Closed(answer) => return self.close(answer),
            }
            socket = match self.reconnect().await {
                Ok(socket) => socket,
                Err(Parting::Failed(error)) => return self.give_up(&error),
                Err(Parting::Closed(answer)) => return self.close(answer),
            };
        }
    }

    /// Fails all sessions, because the client was closed.
    fn close(&mut self, answer: Option<oneshot::Sender<()>>) {
        self.give_up(&ClientError::Closed);
        if let Some(answer) = answer {
            // The caller has gone.
            let _ = answer.send(());
        }
    }

    fn give_up(&mut self, error: &ClientError) {
        let failed = self.core.on_given_up(error);
        self.dispatch_all(failed);
    }

    /// Connects again, and obeys commands meanwhile: a client can be closed at any time.
    async fn reconnect(&mut self) -> Result<Socket, Parting> {
        let mut attempts = pin!(attempts(self.url.clone(), self.options.clone()));
        loop {
            let command = match select(attempts.as_mut(), pin!(self.commands.recv())).await {
                Either::Left((Ok(socket), _)) => return Ok(socket),
                Either::Left((Err(error), _)) => return Err(Parting::Failed(error)),
                Either::Right((command, _)) => command,
            };
            match command {
                None => return Err(Parting::Closed(None)),
                Some(Command::Close(answer)) => return Err(Parting::Closed(Some(answer))),
                Some(command) => {
                    // The core sends what the server does not have when the session is continued.
                    let outputs = self.obey(command);
                    self.dispatch_all(outputs);
                }
            }
        }
    }

    /// Moves events until the connection is lost or closed.
    async fn serve(&mut self, socket: Socket) -> Ending {
        let (mut sink, mut stream) = socket.split();
        let begin = self.core.on_connected();
        if self.perform(begin, &mut sink).await.is_err() {
            return Ending::Lost;
        }
        let mut unanswered = 0;
        loop {
            let outputs = match self.next(&mut stream).await {
                Next::Text(text) => {
                    unanswered = 0;
                    self.core.on_text(&text)
                }
                Next::Alive => {
                    unanswered = 0;
                    Vec::new()
                }
                Next::Command(Command::Close(answer)) => {
                    // A server that has gone does not need the frame.
                    let _ = sink.close().await;
                    return Ending::Closed(Some(answer));
                }
                Next::Command(command) => self.obey(command),
                Next::Silence if unanswered >= UNANSWERED => return Ending::Lost,
                Next::Silence => {
                    unanswered += 1;
                    if sink.send(Message::Ping(bytes::Bytes::new())).await.is_err() {
                        return Ending::Lost;
                    }
                    Vec::new()
                }
                Next::Lost => return Ending::Lost,
                Next::NoHandles => {
                    let _ = sink.close().await;
                    return Ending::Closed(None);
                }
            };
            if self.perform(outputs, &mut sink).await.is_err() {
                return Ending::Lost;
            }
        }
    }

    /// Waits for what comes first: a message of the server, a command, or the end of the patience.
    async fn next(&mut self, stream: &mut SplitStream<Socket>) -> Next {
        let message = async {
            match stream.next().await {
                Some(Ok(Message::Text(text))) => Next::Text(text.as_str().to_owned()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => Next::Lost,
                Some(Ok(_)) => Next::Alive,
            }
        };
        let command = async { self.commands.recv().await.map_or(Next::NoHandles, Next::Command) };
        match select(pin!(select(pin!(message), pin!(command))), pin!(runtime::sleep(KEEP_ALIVE))).await {
            Either::Left((Either::Left((next, _)) | Either::Right((next, _)), _)) => next,
            Either::Right(_) => Next::Silence,
        }
    }

    fn obey(&mut self, command: Command) -> Vec<Output> {
        match command {
            Command::Open(agent, sender) => {
                let (key, outputs) = self.core.open(agent);
                self.opening.insert(key, sender);
                outputs
            }
            Command::Run(key, input, sender) => self.start(key, input, sender),
            Command::Resolve(key, outcome) => self.core.resolve(key, outcome),
            Command::Cancel(key) => self.core.cancel(key),
            Command::Abandon(key) => {
                self.responses.remove(&key);
                self.core.cancel(key)
            }
            Command::End(key) => {
                let mut outputs = self.core.end(key);
                outputs.push(Output::Closed(key));
                outputs
            }
            Command::Close(_) => Vec::new(),
        }
    }

    fn start(&mut self, key: SessionKey, input: Box<ResponseInput>, sender: ResponseSender) -> Vec<Output> {
        match self.core.run(key, (*input).clone()) {
            Ok(outputs) => {
                self.responses.insert(key, sender);
                outputs
            }
            Err(ClientError::Busy)
                if !self.responses.contains_key(&key) && !self.queued.contains_key(&key) =>
            {
                self.queued.insert(key, (input, sender));
                Vec::new()
            }
            Err(error) => {
                // Nobody reads the response.
                let _ = sender.send(Err(error));
                Vec::new()
            }
        }
    }

    /// Performs outputs, and those of requests that waited for them.
    async fn perform(
        &mut self,
        outputs: Vec<Output>,
        sink: &mut SplitSink<Socket, Message>,
    ) -> Result<(), ()> {
        let mut outputs = outputs;
        while !outputs.is_empty() {
            for output in &outputs {
                if let Output::Send(event) = output {
                    sink.feed(Message::text(event.to_json())).await.map_err(drop)?;
                }
            }
            sink.flush().await.map_err(drop)?;
            outputs = self.dispatch(outputs);
        }
        Ok(())
    }

    /// Gives outputs to the handles, without a connection on which something could be sent.
    fn dispatch_all(&mut self, outputs: Vec<Output>) {
        let mut outputs = outputs;
        while !outputs.is_empty() {
            outputs = self.dispatch(outputs);
        }
    }

    /// Gives outputs to the handles. Returns what must be sent because a response has ended.
    fn dispatch(&mut self, outputs: Vec<Output>) -> Vec<Output> {
        let mut more = Vec::new();
        for output in outputs {
            match output {
                Output::Send(_) => {}
                Output::Opened(key, created) => {
                    if let Some(sender) = self.opening.remove(&key)
                        && sender.send(Ok((key, created))).is_err()
                    {
                        more.extend(self.core.end(key));
                    }
                }
                Output::Event(key, event) => {
                    if let Some(sender) = self.responses.get(&key) {
                        // The response was dropped: its cancellation is on the way.
                        let _ = sender.send(Ok(*event));
                    }
                }
                Output::Ended(key) => {
                    self.responses.remove(&key);
                    more.extend(self.start_queued(key));
                }
                Output::Failed(key, error) => {
                    self.fail(key, &error);
                    more.extend(self.start_queued(key));
                }
                Output::Closed(key) => {
                    self.fail(key, &ClientError::Closed);
                    more.extend(self.start_queued(key));
                }
            }
        }
        more
    }

    fn fail(&mut self, key: SessionKey, error: &ClientError) {
        // The handles may have gone.
        if let Some(sender) = self.opening.remove(&key) {
            let _ = sender.send(Err(error.clone()));
        }
        if let Some(sender) = self.responses.remove(&key) {
            let _ = sender.send(Err(error.clone()));
        }
    }

    fn start_queued(&mut self, key: SessionKey) -> Vec<Output> {
        match self.queued.remove(&key) {
            Some((input, sender)) => self.start(key, input, sender),
            None => Vec::new(),
        }
    }
}

/// What a connection does next.
enum Next {
    Text(String),
    /// Another message of the server, such as an answer to a ping.
    Alive,
    Command(Command),
    Silence,
    Lost,
    NoHandles,
}
