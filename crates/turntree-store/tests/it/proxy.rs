//! A TCP proxy that can cut its connections.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use turntree_core::runtime::{self, Task};

use crate::support::block_on;

/// When the proxy cuts a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Not at all.
    Never,
    /// Before a request that contains this text reaches the server.
    Request(&'static [u8]),
    /// After a request that contains this text has reached the server, before the response.
    Response(&'static [u8]),
}

/// Forwards connections to a server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    _task: Task<()>,
}

struct Shared {
    cut: Mutex<Cut>,
    cuts: AtomicUsize,
    is_frozen: AtomicBool,
}

impl Proxy {
    pub(crate) fn start(server: String) -> Self {
        let shared = Arc::new(Shared {
            cut: Mutex::new(Cut::Never),
            cuts: AtomicUsize::new(0),
            is_frozen: AtomicBool::new(false),
        });
        let state = Arc::clone(&shared);
        let bound = async { TcpListener::bind("127.0.0.1:0").await.unwrap() };
        let listener = block_on(runtime::spawn(bound)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = runtime::spawn(async move {
            let mut connections = Vec::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (server, state) = (server.clone(), Arc::clone(&state));
                connections.push(runtime::spawn(async move {
                    let _ = forward(client, &server, &state).await;
                }));
            }
        });
        Self { port, shared, _task: task }
    }

    /// Cuts the next connection that this applies to.
    pub(crate) fn cut(&self, cut: Cut) {
        *self.shared.cut.lock().unwrap() = cut;
    }

    /// How many connections were cut.
    pub(crate) fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Stops to forward anything, without closing a connection: what a firewall does.
    pub(crate) fn freeze(&self) {
        self.shared.is_frozen.store(true, Ordering::SeqCst);
    }
}

async fn forward(mut client: TcpStream, server: &str, shared: &Shared) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    let (mut request, mut response) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let request = &request[..read?];
                if request.is_empty() {
                    return Ok(());
                }
                if shared.is_frozen.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let cut = shared.take_cut(request);
                if matches!(cut, Cut::Request(_)) {
                    return Ok(());
                }
                server.write_all(request).await?;
                if matches!(cut, Cut::Response(_)) {
                    // The server has answered, and the answer is lost.
                    let _ = server.read(&mut response).await?;
                    return Ok(());
                }
            }
            read = server.read(&mut response) => {
                let response = &response[..read?];
                if response.is_empty() {
                    return Ok(());
                }
                client.write_all(response).await?;
            }
        }
    }
}

impl Shared {
    fn take_cut(&self, request: &[u8]) -> Cut {
        let mut cut = self.cut.lock().unwrap();
        let text = match *cut {
            Cut::Never => return Cut::Never,
            Cut::Request(text) | Cut::Response(text) => text,
        };
        if !request.windows(text.len()).any(|window| window == text) {
            return Cut::Never;
        }
        self.cuts.fetch_add(1, Ordering::SeqCst);
        std::mem::replace(&mut *cut, Cut::Never)
    }
}
