//! What a program has written until it ended.
//!
//! A process that the program leaves behind may hold the output open, so its end is no sign that the program has said
//! everything. What the program wrote is in the pipe when it has ended, and is read without waiting.

use std::process::Child;

#[cfg(not(unix))]
pub(crate) use threaded::Output;
#[cfg(unix)]
pub(crate) use without_waiting::Output;

/// The first bytes of an output.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    limit: usize,
    /// Whether there were more.
    pub(crate) is_cut: bool,
}

impl Kept {
    fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, is_cut: false }
    }

    fn add(&mut self, more: &[u8]) {
        let space = self.limit.saturating_sub(self.bytes.len());
        self.bytes.extend(more.iter().take(space));
        self.is_cut |= more.len() > space;
    }
}

#[cfg(unix)]
mod without_waiting {
    use std::io::{self, ErrorKind, Read};
    use std::os::fd::AsRawFd;
    use std::process::ChildStdout;

    use super::{Child, Kept};

    /// The standard output of a child process, read without waiting.
    pub(crate) struct Output {
        stdout: Option<ChildStdout>,
        kept: Kept,
    }

    impl Output {
        /// Takes the output of a child, of which this many bytes are kept.
        ///
        /// # Errors
        /// The pipe cannot be read without waiting.
        pub(crate) fn of(child: &mut Child, limit: usize) -> io::Result<Self> {
            let stdout = child.stdout.take();
            if let Some(stdout) = &stdout {
                no_waiting(stdout)?;
            }
            Ok(Self { stdout, kept: Kept::new(limit) })
        }

        /// Reads what is there, so that the program does not wait for a full pipe.
        pub(crate) fn read(&mut self) {
            let mut part = [0; 8192];
            while let Some(stdout) = &mut self.stdout {
                match stdout.read(&mut part) {
                    Ok(1..) if self.kept.is_cut => return,
                    Ok(count @ 1..) => self.kept.add(part.get(..count).unwrap_or_default()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                    Ok(0) | Err(_) => self.stdout = None,
                }
            }
        }

        /// What was written. The program has ended.
        pub(crate) fn end(mut self) -> Kept {
            self.read();
            self.kept
        }
    }

    #[expect(unsafe_code, reason = "the standard library sets this for sockets only")]
    fn no_waiting(stdout: &ChildStdout) -> io::Result<()> {
        // SAFETY: the descriptor is open as long as `stdout` is borrowed, and both calls take integers only.
        let result = unsafe {
            let flags = libc::fcntl(stdout.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(stdout.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
        };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(not(unix))]
mod threaded {
    use std::io::{self, Read};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{Child, Kept};

    /// How long parts may take that a program has written before it ended.
    const LAST_PARTS: Duration = Duration::from_secs(1);

    /// The standard output of a child process, read by a thread.
    pub(crate) struct Output {
        parts: Receiver<Vec<u8>>,
        kept: Kept,
    }

    impl Output {
        /// Takes the output of a child, of which this many bytes are kept.
        ///
        /// # Errors
        /// No thread can be started.
        pub(crate) fn of(child: &mut Child, limit: usize) -> io::Result<Self> {
            let (sender, parts) = channel();
            if let Some(mut stdout) = child.stdout.take() {
                thread::Builder::new().spawn(move || {
                    let mut part = [0; 8192];
                    while let Ok(count @ 1..) = stdout.read(&mut part) {
                        if sender.send(part.get(..count).unwrap_or_default().to_vec()).is_err() {
                            return;
                        }
                    }
                })?;
            }
            Ok(Self { parts, kept: Kept::new(limit) })
        }

        /// Takes what was read.
        pub(crate) fn read(&mut self) {
            while let Ok(part) = self.parts.try_recv() {
                self.kept.add(&part);
            }
        }

        /// What was written. The program has ended.
        pub(crate) fn end(mut self) -> Kept {
            let until = Instant::now() + LAST_PARTS;
            while let Ok(part) = self.parts.recv_timeout(until.saturating_duration_since(Instant::now())) {
                self.kept.add(&part);
            }
            self.kept
        }
    }
}
