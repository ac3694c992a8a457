//! The servers of the tests: `tools/test-services` starts them and sets the variables.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use turntree_core::runtime::environment;

/// Returns the value of a variable of `tools/test-services`.
///
/// Without it, says once that something is not tested; a failure if `TURNTREE_REQUIRE_SERVICES` is set.
pub(crate) fn service(variable: &'static str) -> Option<String> {
    static MISSING: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let found = environment(variable);
    if found.is_none() {
        let message = format!("NOT TESTED: what needs {variable}, which is not set; see tools/test-services");
        assert!(environment("TURNTREE_REQUIRE_SERVICES").is_none(), "{message}");
        if MISSING.lock().unwrap().insert(variable) {
            // Not `eprintln!`, whose text cargo shows for failures only.
            let _ = writeln!(std::io::stderr(), "{message}");
        }
    }
    found
}

/// Starts a server of the test's own, which it may kill; as [`service`] where there are no servers.
pub(crate) fn own_server(kind: &'static str) -> Option<OwnServer> {
    service(if kind == "redis" { "TURNTREE_TEST_REDIS" } else { "TURNTREE_TEST_POSTGRES" })?;
    Some(OwnServer::start(kind))
}

/// A name that no other test has.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A server of one test, which may be killed.
pub(crate) struct OwnServer {
    kind: &'static str,
    folder: PathBuf,
}

impl OwnServer {
    fn start(kind: &'static str) -> Self {
        let server = Self { kind, folder: std::env::temp_dir().join(unique("turntree-test-services")) };
        server.run("start");
        server
    }

    /// Ends the server as a crash does.
    pub(crate) fn kill(&self) {
        self.run("kill");
    }

    /// Starts the server again after [`Self::kill`].
    pub(crate) fn start_again(&self) {
        self.run("start");
    }

    /// The value of a variable.
    pub(crate) fn variable(&self, name: &str) -> String {
        let output = self.run("env");
        let start = format!("export {name}=");
        let found = output.lines().find_map(|line| line.strip_prefix(&start));
        found.unwrap_or_else(|| panic!("{name} is not in {output}")).to_owned()
    }

    fn run(&self, command: &str) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/test-services");
        let mut process = Command::new(script);
        process.arg(command).arg(&self.folder);
        if matches!(command, "start" | "kill") {
            process.arg(self.kind);
        }
        let output = process.output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.run("stop");
    }
}
