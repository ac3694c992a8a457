//! How to reach a provider.

/// Options of a provider, beside the model's own parameters. UPP-1.2 §9.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfig {}
