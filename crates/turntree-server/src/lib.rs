//! The server layer that turntree's protocols share.
//!
//! A protocol implements [`Application`]: a request comes in with a streamed body, a response goes out. It does no I/O
//! of its own on sockets. The same application is called by every face:
//!
//! | face | use |
//! |---|---|
//! | native server | HTTP/1.1 and HTTP/2 on the tokio runtime |
//! | ASGI | mounted in FastAPI or Starlette; run by uvicorn, hypercorn or granian |
//! | [`TestClient`] | calls in process, without sockets |
//!
//! | module | content |
//! |---|---|
//! | [`application`] | the port: requests, responses, what is known of the connection |
//! | [`authentication`] | the port of authenticators; principals |
//! | [`bearer_tokens`], [`jwt`] | authenticators: a fixed set of tokens, JSON Web Tokens |
//! | [`body`], [`sse`] | bodies in one piece or streamed; server-sent events |
//! | [`websocket`] | WebSocket connections as messages |
//! | [`service`] | what every face does around an application: authentication, limits, health endpoints |
//! | [`access_log`] | one record for each answered request |
//! | [`native`] | the native server |
//! | [`error`] | the errors, with their status and code |
//! | [`test_client`] | calls an application in process |

pub mod access_log;
pub mod application;
pub mod authentication;
pub mod bearer_tokens;
pub mod body;
pub mod error;
pub mod jwt;
pub mod native;
pub mod service;
pub mod sse;
pub mod test_client;
pub mod websocket;

pub use application::{Access, Application, Connection, Request, RequestContext, Response};
pub use authentication::{Authenticator, Principal};
pub use bearer_tokens::BearerTokens;
pub use body::Body;
pub use error::ServerError;
pub use jwt::{JwtAlgorithm, JwtAuthenticator, JwtConfig};
pub use native::{Server, ServerConfig};
pub use service::{Limits, Service};
pub use sse::{KeepAlive, SseEvent};
pub use test_client::{TestClient, TestResponse};
pub use websocket::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
