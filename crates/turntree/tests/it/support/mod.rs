//! Helpers that several test modules share.

use proptest::test_runner::Config;

pub(crate) mod agents;
pub(crate) mod dialect;
pub(crate) mod fixtures;
pub(crate) mod server;

/// The default of proptest for the number of cases.
const DEFAULT_CASES: u64 = 256;

/// A configuration with this number of cases. `PROPTEST_CASES` scales the number: 2560 gives ten times as many cases.
pub(crate) fn with_cases(cases: u32) -> Config {
    let default = Config::default();
    let cases = (u64::from(cases) * u64::from(default.cases)).div_ceil(DEFAULT_CASES);
    Config { cases: u32::try_from(cases).unwrap_or(u32::MAX), ..default }
}
