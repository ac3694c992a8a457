//! The JSON of persistent vectors and errors in the state of a run.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::failure;
use crate::types::failure::PartialTurn;
use turntree_core::message::Turn;
use turntree_upp::{ErrorCode, Modality, UppError};

/// A persistent vector as a list.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize + Clone, S: Serializer>(
        list: &imbl::Vector<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de> + Clone, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<imbl::Vector<T>, D::Error> {
        Vec::<T>::deserialize(deserializer).map(Into::into)
    }
}

/// An error in the state of a run. The JSON contains the message, the code and the partial turn; it does not contain the
/// cause and the application's exception.
#[derive(Debug, Clone)]
pub(crate) struct SavedError(pub(crate) UppError);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorJson {
    code: String,
    message: String,
    provider: String,
    modality: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partial: Option<Arc<Turn>>,
}

impl Serialize for SavedError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let error = &self.0;
        let json = ErrorJson {
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            provider: error.provider.clone(),
            modality: error.modality.as_str().to_owned(),
            status_code: error.status_code,
            retry_after: error.retry_after,
            request_id: error.request_id.clone(),
            partial: failure::partial_turn(error).map(|partial| Arc::clone(&partial.turn)),
        };
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SavedError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = ErrorJson::deserialize(deserializer)?;
        let code = ErrorCode::ALL.into_iter().find(|code| code.as_str() == json.code);
        let code = code.ok_or_else(|| D::Error::custom(format_args!("unknown error code: {}", json.code)))?;
        let cause = json.partial.map(|turn| Arc::new(PartialTurn { turn, cause: None }) as _);
        Ok(Self(UppError {
            code,
            message: json.message,
            provider: json.provider,
            modality: modality(&json.modality),
            status_code: json.status_code,
            retry_after: json.retry_after,
            request_id: json.request_id,
            retries: 0,
            report: None,
            cause,
            host: None,
        }))
    }
}

fn modality(name: &str) -> Modality {
    match name {
        "embedding" => Modality::Embedding,
        "image" => Modality::Image,
        "audio" => Modality::Audio,
        "video" => Modality::Video,
        _ => Modality::Llm,
    }
}
