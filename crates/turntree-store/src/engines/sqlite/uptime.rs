//! A clock for leases that nobody sets: the time since the machine was started.

use turntree_core::time::{Clock as _, SystemClock};

/// A moment of the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Uptime {
    /// Names the run of the machine. Moments of two runs cannot be compared: no worker lives that long.
    pub(super) boot: String,
    /// Microseconds since its start, with the time in which the machine slept.
    pub(super) microseconds: i64,
}

/// The moment now. Where the system does not name its runs, that of the wall clock, in one run that never ends.
pub(super) fn now() -> Uptime {
    since_boot()
        .unwrap_or_else(|| Uptime { boot: String::new(), microseconds: SystemClock.now().microseconds() })
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library has no clock that processes share")]
fn since_boot() -> Option<Uptime> {
    use std::fs;
    use std::sync::OnceLock;

    static BOOT: OnceLock<Option<String>> = OnceLock::new();

    let read = || fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let boot = BOOT.get_or_init(|| read().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()));
    let boot = boot.as_ref()?.clone();
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call.
    if unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) } != 0 {
        return None;
    }
    let microseconds = time.tv_sec.checked_mul(1_000_000)?.checked_add(time.tv_nsec / 1_000)?;
    Some(Uptime { boot, microseconds })
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<Uptime> {
    None
}
