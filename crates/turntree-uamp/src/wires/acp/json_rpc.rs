//! JSON-RPC 2.0: messages of both directions as text; without I/O.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use turntree_core::json;
use turntree_core::limits::Limits;

/// Limits on one message. Media is base64 in it.
const LIMITS: Limits = Limits { bytes: MAX_MESSAGE, depth: 64, values: 200_000 };

/// The size limit of a message in bytes: 16 MiB, which has room for 12 MB of media.
pub const MAX_MESSAGE: usize = 16 << 20;

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// The place, the rule and the remedy.
    pub message: String,
    /// More for programs.
    pub data: Option<Value>,
}

impl RpcError {
    /// The code of text that is not JSON.
    pub const PARSE_ERROR: i64 = -32_700;
    /// The code of JSON that is not a request, and of requests that are not possible now.
    pub const INVALID_REQUEST: i64 = -32_600;
    /// The code of an unknown method.
    pub const METHOD_NOT_FOUND: i64 = -32_601;
    /// The code of parameters that are not valid.
    pub const INVALID_PARAMS: i64 = -32_602;
    /// The code of failures of the agent or of the store.
    pub const INTERNAL_ERROR: i64 = -32_603;
    /// The code of a session that does not exist.
    pub const RESOURCE_NOT_FOUND: i64 = -32_002;

    /// An error.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// JSON that is not a request, or a request that is not possible now.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_REQUEST, message)
    }

    /// Parameters that are not valid.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// A failure of the agent or of the store.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Self::INTERNAL_ERROR, message)
    }

    /// A method that does not exist.
    pub fn method_not_found(method: &str) -> Self {
        let name: String = method.chars().take(100).collect();
        Self::new(Self::METHOD_NOT_FOUND, format!("there is no method \"{name}\""))
    }

    fn to_value(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let (Some(data), Some(members)) = (&self.data, error.as_object_mut()) {
            members.insert("data".to_owned(), data.clone());
        }
        error
    }
}

/// A message of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// A request, which is answered.
    Request {
        /// The id: a string, a number or null.
        id: Value,
        /// The method.
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// A notification, which is never answered.
    Notification {
        /// The method.
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// The answer to a request of the agent.
    Response {
        /// The id of the request.
        id: Value,
        /// The result, or why there is none.
        outcome: Result<Value, RpcError>,
    },
}

/// Why text is not a message. It is answered with [`response`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct Malformed {
    /// The id of the answer; null if the text has none.
    pub id: Value,
    /// The error.
    pub error: RpcError,
}

impl Malformed {
    /// A line that is longer than [`MAX_MESSAGE`].
    pub fn too_large() -> Self {
        let message =
            format!("the message has more than {MAX_MESSAGE} bytes; send media as a link, or in parts");
        Self { id: Value::Null, error: RpcError::invalid_request(message) }
    }

    /// The answer.
    pub fn response(&self) -> String {
        response(&self.id, Err(&self.error))
    }
}

/// Reads a message.
///
/// # Errors
/// The bytes are not JSON (-32700), or not a message (-32600).
pub fn read(bytes: &[u8]) -> Result<Incoming, Malformed> {
    if bytes.len() > MAX_MESSAGE {
        return Err(Malformed::too_large());
    }
    let value: Value = json::parse_bytes(bytes, &LIMITS).map_err(|reason| {
        let error = RpcError::new(RpcError::PARSE_ERROR, format!("the message is not JSON: {reason}"));
        Malformed { id: Value::Null, error }
    })?;
    let id = value.get("id").cloned();
    let answer_id = id.clone().filter(|id| id.is_string() || id.is_number()).unwrap_or_default();
    let invalid =
        |message: &str| Err(Malformed { id: answer_id.clone(), error: RpcError::invalid_request(message) });
    let Value::Object(mut members) = value else {
        return invalid("the message is not an object; batches are not supported");
    };
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("jsonrpc: expected \"2.0\"");
    }
    if id.as_ref().is_some_and(|id| !id.is_string() && !id.is_number() && !id.is_null()) {
        return invalid("id: expected a string or a number");
    }
    let method = match members.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return invalid("method: expected a string"),
        None => {
            let outcome = match (members.remove("result"), members.remove("error")) {
                (_, Some(error)) => Err(error_of(&error)),
                (Some(result), None) => Ok(result),
                (None, None) => return invalid("method: missing; it names what is requested"),
            };
            return Ok(Incoming::Response { id: id.unwrap_or_default(), outcome });
        }
    };
    let params = members.remove("params").unwrap_or_default();
    if !params.is_object() && !params.is_array() && !params.is_null() {
        return invalid("params: expected an object");
    }
    Ok(match id {
        Some(id) => Incoming::Request { id, method, params },
        None => Incoming::Notification { method, params },
    })
}

fn error_of(error: &Value) -> RpcError {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or(RpcError::INTERNAL_ERROR);
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
    RpcError { code, message: message.to_owned(), data: error.get("data").cloned() }
}

/// Reads the parameters of a method.
///
/// # Errors
/// They are not valid (-32602).
pub fn params<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    let params = if params.is_null() { json!({}) } else { params };
    serde_json::from_value(params).map_err(|error| RpcError::invalid_params(format!("params: {error}")))
}

/// The answer to a request.
pub fn response(id: &Value, outcome: Result<&Value, &RpcError>) -> String {
    match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error.to_value() }),
    }
    .to_string()
}

/// A request of the agent.
pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A notification of the agent.
pub fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}
