//! Splits the caller's parameters into members of the request and of `generationConfig`.
//!
//! Spec: UPP-1.2 §19.4

use crate::error::UppError;
use turntree_core::json::{RawJson, RawObject};

/// Members of the request itself, in both spellings. All others belong in `generationConfig`.
const TOP_LEVEL: [&str; 13] = [
    "cachedContent",
    "cached_content",
    "tools",
    "toolConfig",
    "tool_config",
    "safetySettings",
    "safety_settings",
    "labels",
    "modelArmorConfig",
    "model_armor_config",
    "serviceTier",
    "service_tier",
    "store",
];

/// Members that parameters cannot set.
const OWNED: [&str; 5] = ["contents", "model", "stream", "systemInstruction", "system_instruction"];

/// Members that request structured output; removed if the dialect sets them.
const STRUCTURE: [&str; 8] = [
    "responseMimeType",
    "response_mime_type",
    "responseSchema",
    "response_schema",
    "responseJsonSchema",
    "response_json_schema",
    "_responseJsonSchema",
    "responseFormat",
];

/// The split parameters.
#[derive(Debug, Default)]
pub(super) struct Params {
    /// Members of the request.
    pub(super) top: RawObject,
    /// Members of `generationConfig`.
    pub(super) generation: RawObject,
}

impl Params {
    /// Splits the parameters. A `generationConfig` among them is merged; members beside it take precedence.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) if `generationConfig` is not an object.
    pub(super) fn split(provider: &str, params: &RawObject) -> Result<Self, UppError> {
        let mut split = Self::default();
        for name in ["generationConfig", "generation_config"] {
            let Some(config) = params.get(name).filter(|config| !config.is_null()) else { continue };
            split.generation = RawObject::from_raw(config).ok_or_else(|| {
                UppError::invalid_request(provider, format!("params.{name}: expected an object"))
            })?;
        }
        for (name, value) in params.iter() {
            match name {
                "generationConfig" | "generation_config" => {}
                _ if OWNED.contains(&name) => {}
                _ if TOP_LEVEL.contains(&name) => split.top.insert(name, value.clone()),
                _ => split.generation.insert(name, value.clone()),
            }
        }
        Ok(split)
    }

    /// Removes a member of the request, in either spelling.
    pub(super) fn take(&mut self, name: &str, other_name: &str) -> Option<RawJson> {
        let (one, other) = (self.top.remove(name), self.top.remove(other_name));
        one.or(other).filter(|value| !value.is_null())
    }

    /// Removes the members that request structured output.
    pub(super) fn clear_structure(&mut self) {
        for name in STRUCTURE {
            self.generation.remove(name);
        }
    }
}
