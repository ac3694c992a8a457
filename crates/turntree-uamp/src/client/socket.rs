//! Makes a WebSocket connection.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};
use turntree_core::http::{ServerTrust, client_config};
use turntree_core::runtime;
use turntree_core::secret::Secret;
use url::Url;

use super::error::ClientError;

/// How long a connection may take, with its handshakes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of the body of a refusal is shown.
const SHOWN_BODY: usize = 300;

/// A connection, with or without TLS.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

pub(crate) type Socket = WebSocketStream<Box<dyn Connection>>;

/// The WebSocket URL of a server. A URL that does not end with `/uamp` or `/ws` is that of a server or an agent, below
/// which `/uamp` is.
///
/// # Errors
/// [`ClientError::Url`].
pub(crate) fn websocket_url(text: &str) -> Result<Url, ClientError> {
    let invalid = |reason: &str| ClientError::Url { url: text.to_owned(), reason: reason.to_owned() };
    let mut url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
    let scheme = match url.scheme() {
        "http" | "ws" => "ws",
        "https" | "wss" => "wss",
        other => return Err(invalid(&format!("its scheme is \"{other}\""))),
    };
    url.set_scheme(scheme).map_err(|()| invalid("its scheme cannot be changed"))?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("it has no host"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/uamp") && !path.ends_with("/ws") {
        url.set_path(&format!("{path}/uamp"));
    }
    Ok(url)
}

/// Connects to a server.
///
/// # Errors
/// The server cannot be reached, or it refuses the connection.
pub(crate) async fn connect(url: &Url, token: Option<&Secret>) -> Result<Socket, ClientError> {
    let failed = |reason: String| ClientError::Connection { reason };
    let made = tokio::time::timeout(CONNECT_TIMEOUT, handshake(url, token));
    made.await.unwrap_or_else(|_| {
        Err(failed(format!("{} did not answer within {} s", origin(url), CONNECT_TIMEOUT.as_secs())))
    })
}

async fn handshake(url: &Url, token: Option<&Secret>) -> Result<Socket, ClientError> {
    let failed = |reason: String| ClientError::Connection { reason: format!("{}: {reason}", origin(url)) };
    let mut request = url.as_str().into_client_request().map_err(|error| failed(error.to_string()))?;
    if let Some(token) = token {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| failed("the token has characters that a header cannot have".to_owned()))?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(443);
    let plain = TcpStream::connect((host.trim_matches(['[', ']']), port))
        .await
        .map_err(|error| failed(error.to_string()))?;
    // Events are small: without this, each waits for the acknowledgement of the one before.
    plain.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
    let stream: Box<dyn Connection> = if url.scheme() == "wss" {
        Box::new(secured(host, plain).await.map_err(failed)?)
    } else {
        Box::new(plain)
    };
    match client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            let body = String::from_utf8_lossy(body).chars().take(SHOWN_BODY).collect();
            Err(ClientError::Refused { status: response.status().as_u16(), body })
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

async fn secured(host: &str, plain: TcpStream) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
    let loaded = runtime::spawn_blocking(|| client_config(ServerTrust::AuthorityAndName(None), b"http/1.1"));
    let config = loaded.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let name =
        ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|error| error.to_string())?;
    TlsConnector::from(Arc::new(config)).connect(name, plain).await.map_err(|error| error.to_string())
}

/// The URL without its query, which can have a token.
fn origin(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
}
