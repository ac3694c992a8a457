//! Sources of new ids. State machines and conversions take an [`IdSource`] as an argument, so that a replay or a test
//! gets the same ids.

use uuid::Uuid;

/// Creates ids (UUIDv4).
///
/// Spec: UAP-1.0 §3.4
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// A new id.
    fn uuid(&self) -> Uuid;

    /// A new id as text: lower case with dashes.
    fn string(&self) -> String {
        self.uuid().to_string()
    }
}

/// Random UUIDv4. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// Valid UUIDv4 whose last digits count up from 1. For tests, examples and snapshots.
#[derive(Debug, Default)]
pub struct CountingIds(std::sync::atomic::AtomicU64);

impl IdSource for CountingIds {
    fn uuid(&self) -> Uuid {
        let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        uuid::Builder::from_random_bytes(u128::from(count).to_be_bytes()).into_uuid()
    }
}
