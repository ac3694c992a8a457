//! Where a vendor's API is, and how requests to it authenticate.

use std::borrow::Cow;

use turntree_core::secret::Secret;

/// The header that carries the API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `authorization: Bearer <key>`.
    Bearer,
    /// The key alone, in a header of this name.
    Named(&'static str),
}

/// An API as data: provider, URL, API key and headers. All dialects of a vendor share it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The provider's name: in errors, and as the namespace of metadata.
    pub provider: Cow<'static, str>,
    /// The prefix of all URLs, such as `https://api.openai.com/v1`. The configuration may replace it.
    pub base_url: Cow<'static, str>,
    /// Environment variables that may hold the API key, in order.
    pub key_variables: &'static [&'static str],
    /// True if requests may be sent without a key.
    pub key_is_optional: bool,
    /// The header that carries the key.
    pub key_header: KeyHeader,
    /// Headers that the API requires besides the key.
    pub headers: Vec<(&'static str, String)>,
}

impl Endpoint {
    /// A vendor's API: the key is required and sent as a bearer token.
    pub const fn vendor(
        provider: &'static str,
        base_url: &'static str,
        key_variables: &'static [&'static str],
    ) -> Self {
        Self {
            provider: Cow::Borrowed(provider),
            base_url: Cow::Borrowed(base_url),
            key_variables,
            key_is_optional: false,
            key_header: KeyHeader::Bearer,
            headers: Vec::new(),
        }
    }

    /// A host at any URL: a key is sent if the configuration has one, and the environment is not read.
    pub fn host(provider: impl Into<Cow<'static, str>>, base_url: impl Into<Cow<'static, str>>) -> Self {
        Self {
            provider: provider.into(),
            base_url: base_url.into(),
            key_is_optional: true,
            ..Self::vendor("", "", &[])
        }
    }

    /// The headers of a request: those that the API requires, and the key.
    pub fn headers(&self, key: Option<&Secret>) -> Vec<(&'static str, Secret)> {
        let required = self.headers.iter().map(|(name, value)| (*name, Secret::from(value.as_str())));
        let key = key.map(|key| match self.key_header {
            KeyHeader::Bearer => ("authorization", Secret::from(format!("Bearer {}", key.expose()))),
            KeyHeader::Named(name) => (name, key.clone()),
        });
        key.into_iter().chain(required).collect()
    }
}
