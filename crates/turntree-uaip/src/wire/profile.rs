//! The two forms of responses.

/// How responses to `/execute` look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// The specification: status codes for errors, results as JSON.
    #[default]
    Strict,
    /// Servers of version 0.4 and their clients: status 200 once the request is understood, and text for the model.
    Reference,
}

impl Profile {
    /// Finds a profile by its name in the header `X-UAIP-Profile`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.trim() {
            "strict" => Some(Self::Strict),
            "reference" => Some(Self::Reference),
            _ => None,
        }
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Reference => "reference",
        }
    }
}
