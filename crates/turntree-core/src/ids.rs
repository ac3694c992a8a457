//! Sources of new ids. State machines and conversions take an [`IdSource`] as an argument, so that a replay or a test
//! gets the same ids.

use uuid::{Uuid, uuid};

/// The namespace of derived ids, a random UUID.
const DERIVED_NAMESPACE: Uuid = uuid!("8d0ab1c7-52f1-4f2e-9c1b-3a2f60c5e1d4");

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

/// Valid UUIDv4 that are computed from a name: every source with the same name creates the same ids in the same order. For
/// runs that a durable engine repeats after a crash.
#[derive(Debug)]
pub struct DerivedIds {
    namespace: Uuid,
    count: std::sync::atomic::AtomicU64,
}

impl DerivedIds {
    /// A source with this name.
    pub fn new(name: &str) -> Self {
        Self { namespace: Uuid::new_v5(&DERIVED_NAMESPACE, name.as_bytes()), count: 0.into() }
    }

    /// A source for a part of the run. It depends on both names, and not on the ids that this source has created.
    #[must_use]
    pub fn nested(&self, name: &str) -> Self {
        Self::new(&format!("{}/{name}", self.namespace))
    }
}

impl IdSource for DerivedIds {
    fn uuid(&self) -> Uuid {
        let count = self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let derived = Uuid::new_v5(&self.namespace, &count.to_be_bytes());
        uuid::Builder::from_random_bytes(derived.into_bytes()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::{DerivedIds, IdSource as _};

    #[test]
    fn sources_of_one_name_create_the_same_ids_and_nested_ones_do_not_depend_on_the_order() {
        let (first, second) = (DerivedIds::new("run"), DerivedIds::new("run"));
        let early = first.nested("call").string();

        let ids = [first.string(), first.string()];
        assert_eq!(ids, [second.string(), second.string()]);
        assert_ne!(ids[0], ids[1]);
        assert_eq!(early, second.nested("call").string());
        assert_ne!(early, second.nested("other").string());
        assert_ne!(DerivedIds::new("other").string(), ids[0]);
        assert_eq!(first.uuid().get_version_num(), 4);
    }
}
