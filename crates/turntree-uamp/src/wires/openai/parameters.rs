//! Parameters of requests in the words of the agent's model.

use serde_json::{Value, json};
use turntree_agents::Agent;
use turntree_core::json::{RawJson, RawObject};

use super::error::ApiError;
use crate::types::Number;

/// Parameters of a request that a model understands.
#[derive(Debug, Clone, Default)]
pub(in crate::wires) struct Parameters {
    pub(in crate::wires) temperature: Option<Number>,
    pub(in crate::wires) top_p: Option<Number>,
    pub(in crate::wires) max_tokens: Option<Number>,
    pub(in crate::wires) stop: Vec<String>,
    pub(in crate::wires) seed: Option<Number>,
    pub(in crate::wires) frequency_penalty: Option<Number>,
    pub(in crate::wires) presence_penalty: Option<Number>,
    pub(in crate::wires) tool_choice: ToolChoice,
    /// The output is one JSON object.
    pub(in crate::wires) json_object: bool,
}

/// Which tools of the client the model calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::wires) enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

impl ToolChoice {
    /// Reads `tool_choice`: a word, `{"type": "function", "function": {"name"}}` of chat completions, or
    /// `{"type": "function", "name"}` of responses.
    ///
    /// # Errors
    /// It is something else, or the request does not have the tool.
    pub(in crate::wires) fn read(value: Option<&RawJson>, tools: &[String]) -> Result<Self, ApiError> {
        const PARAM: &str = "tool_choice";
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Self::Auto) };
        let value: Value = value.to().unwrap_or_default();
        let choice = match value.as_str() {
            Some("auto") => return Ok(Self::Auto),
            Some("none") => return Ok(Self::None),
            Some("required") => Self::Required,
            Some(_) => {
                return Err(ApiError::invalid(
                    PARAM,
                    "tool_choice must be \"auto\", \"none\", \"required\" or a function",
                ));
            }
            None => {
                let name = value.pointer("/function/name").or_else(|| value.get("name"));
                let name = name.and_then(Value::as_str).ok_or_else(|| {
                    ApiError::invalid(PARAM, "tool_choice must name a function of tools, or be a word")
                })?;
                Self::Named(name.to_owned())
            }
        };
        match &choice {
            _ if tools.is_empty() => {
                Err(ApiError::invalid(PARAM, "tool_choice is only allowed when tools are specified"))
            }
            Self::Named(name) if !tools.contains(name) => {
                Err(ApiError::invalid(PARAM, format!("tool_choice names \"{name}\", which is not in tools")))
            }
            _ => Ok(choice),
        }
    }
}

/// The form of `tool_choice`.
#[derive(Debug, Clone, Copy)]
enum ChoiceForm {
    Chat,
    Responses,
    Messages,
    Gemini,
    Absent,
}

/// How a vendor writes parameters; those without a name are not sent.
#[derive(Debug)]
struct Words {
    top_p: &'static str,
    max_tokens: &'static str,
    stop: Option<&'static str>,
    seed: Option<&'static str>,
    frequency_penalty: Option<&'static str>,
    presence_penalty: Option<&'static str>,
    choice: ChoiceForm,
    /// The parameter that makes the output a JSON object, as JSON.
    json_object: Option<(&'static str, &'static str)>,
}

const CHAT: Words = Words {
    top_p: "top_p",
    max_tokens: "max_tokens",
    stop: Some("stop"),
    seed: Some("seed"),
    frequency_penalty: Some("frequency_penalty"),
    presence_penalty: Some("presence_penalty"),
    choice: ChoiceForm::Chat,
    json_object: Some(("response_format", r#"{"type":"json_object"}"#)),
};

const RESPONSES: Words = Words {
    max_tokens: "max_output_tokens",
    stop: None,
    seed: None,
    frequency_penalty: None,
    presence_penalty: None,
    choice: ChoiceForm::Responses,
    json_object: Some(("text", r#"{"format":{"type":"json_object"}}"#)),
    ..CHAT
};

const MESSAGES: Words = Words {
    max_tokens: "max_tokens",
    stop: Some("stop_sequences"),
    choice: ChoiceForm::Messages,
    json_object: None,
    ..RESPONSES
};

const GEMINI: Words = Words {
    top_p: "topP",
    max_tokens: "maxOutputTokens",
    stop: Some("stopSequences"),
    seed: Some("seed"),
    frequency_penalty: Some("frequencyPenalty"),
    presence_penalty: Some("presencePenalty"),
    choice: ChoiceForm::Gemini,
    json_object: Some(("responseMimeType", r#""application/json""#)),
};

const OLLAMA: Words =
    Words { max_tokens: "num_predict", choice: ChoiceForm::Absent, json_object: None, ..CHAT };

/// The spellings of the largest number of tokens. An agent that sets one of them shows which one its model knows.
const MAX_TOKENS: [&str; 5] =
    ["max_output_tokens", "max_completion_tokens", "max_tokens", "maxOutputTokens", "num_predict"];

/// What a model without a parameter for it is told.
const JSON_OBJECT: &str = "Answer with one JSON object and nothing else.";

fn words_of(provider: &str) -> &'static Words {
    match provider {
        "anthropic" => &MESSAGES,
        "google" => &GEMINI,
        "ollama" => &OLLAMA,
        "openai" | "responses" => &RESPONSES,
        _ => &CHAT,
    }
}

impl Parameters {
    /// The parameters for the model of an agent, and what the model is told instead of a parameter.
    pub(in crate::wires) fn of_agent(&self, agent: &Agent) -> (RawObject, Option<String>) {
        let options = agent.options();
        let words = words_of(options.model.as_ref().map_or("", |model| model.provider()));
        let max_tokens = MAX_TOKENS.iter().find(|name| options.params.get(name).is_some());
        let mut params = RawObject::new();
        let mut set = |name: Option<&str>, value: Option<Value>| {
            if let (Some(name), Some(value)) = (name, value)
                && let Ok(value) = RawJson::from_value(&value)
            {
                params.insert(name, value);
            }
        };
        let number = |number: &Option<Number>| number.as_ref().map(|number| json!(number));
        set(Some("temperature"), number(&self.temperature));
        set(Some(words.top_p), number(&self.top_p));
        set(Some(max_tokens.unwrap_or(&words.max_tokens)), number(&self.max_tokens));
        set(words.stop, (!self.stop.is_empty()).then(|| json!(self.stop)));
        set(words.seed, number(&self.seed));
        set(words.frequency_penalty, number(&self.frequency_penalty));
        set(words.presence_penalty, number(&self.presence_penalty));
        if let Some((name, value)) = self.choice(words.choice) {
            set(Some(name), Some(value));
        }
        if let (true, Some((name, text))) = (self.json_object, words.json_object) {
            set(Some(name), serde_json::from_str(text).ok());
        }
        (params, self.json_object.then(|| JSON_OBJECT.to_owned()))
    }

    fn choice(&self, form: ChoiceForm) -> Option<(&'static str, Value)> {
        let name = match &self.tool_choice {
            ToolChoice::Auto | ToolChoice::None => return None,
            ToolChoice::Required => None,
            ToolChoice::Named(name) => Some(name),
        };
        let value = match (form, name) {
            (ChoiceForm::Absent, _) => return None,
            (ChoiceForm::Chat | ChoiceForm::Responses, None) => json!("required"),
            (ChoiceForm::Chat, Some(name)) => json!({ "type": "function", "function": { "name": name } }),
            (ChoiceForm::Responses, Some(name)) => json!({ "type": "function", "name": name }),
            (ChoiceForm::Messages, None) => json!({ "type": "any" }),
            (ChoiceForm::Messages, Some(name)) => json!({ "type": "tool", "name": name }),
            (ChoiceForm::Gemini, name) => {
                let names: Vec<&String> = name.into_iter().collect();
                let mut config = json!({ "mode": "ANY" });
                if !names.is_empty() {
                    config = json!({ "mode": "ANY", "allowedFunctionNames": names });
                }
                return Some(("toolConfig", json!({ "functionCallingConfig": config })));
            }
        };
        Some(("tool_choice", value))
    }
}
