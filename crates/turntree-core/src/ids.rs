//! Where new ids come from. Machines and conversions never mint one themselves: a driver hands them an [`IdSource`],
//! so that a replay or a test sees the same ids.

use uuid::Uuid;

/// Mints ids. UAP-1.0 §3.4 wants UUIDv4 for everything that is new.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// A fresh id.
    fn uuid(&self) -> Uuid;

    /// A fresh id in its usual spelling: lower case with dashes.
    fn string(&self) -> String {
        self.uuid().to_string()
    }
}

/// Random UUIDv4: what everything but tests and replays uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// Counts: valid UUIDv4 whose last digits are 1, 2, 3 … For tests, examples and snapshots.
#[derive(Debug, Default)]
pub struct CountingIds(std::sync::atomic::AtomicU64);

impl IdSource for CountingIds {
    fn uuid(&self) -> Uuid {
        let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        uuid::Builder::from_random_bytes(u128::from(count).to_be_bytes()).into_uuid()
    }
}
