//! Writes the common settings at their places among a vendor's parameters.

use serde_json::{Value, json};

use super::UnsupportedSetting;
use super::table::{Caching, Choice, Reasoning, SettingsTable};
use crate::error::UppError;
use turntree_core::json::{RawJson, RawObject};

/// The budgets that stand for the efforts low, medium and high.
const BUDGETS: [(&str, u64); 3] = [("low", 2048), ("medium", 8192), ("high", 24_576)];

/// The least budget of thinking that Anthropic accepts.
const LEAST_THINKING: u64 = 1024;

/// The least `top_p` that Anthropic accepts together with thinking.
const LEAST_TOP_P: f64 = 0.95;

/// The tokens of an answer after its thinking, if the caller does not say how many.
const ANSWER_TOKENS: u64 = 4096;

/// The reason of a setting that a vendor does not have.
const LACKING: &str = "the vendor has no such parameter";

/// The parameters of one request, while the settings are written into them.
pub(super) struct Parameters<'a> {
    provider: &'a str,
    model_id: &'a str,
    params: RawObject,
    has_tools: bool,
    /// True if a setting has requested thinking.
    requests_thinking: bool,
    unsupported: Vec<UnsupportedSetting>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(provider: &'a str, model_id: &'a str, params: RawObject, has_tools: bool) -> Self {
        Self { provider, model_id, params, has_tools, requests_thinking: false, unsupported: Vec::new() }
    }

    /// Writes one setting.
    pub(super) fn set(&mut self, table: &SettingsTable, name: &str, raw: &RawJson) -> Result<(), UppError> {
        let value: Value = raw.to().map_err(|_| self.wrong(name, "a JSON value"))?;
        match name {
            "max_tokens" => self.plain(table.max_tokens, name, value),
            "temperature" => self.plain(table.temperature, name, value),
            "top_p" => self.plain(table.top_p, name, value),
            "stop" => {
                let list = if value.is_string() { json!([value]) } else { value };
                self.plain(table.stop, name, list);
            }
            "seed" => self.plain(table.seed, name, value),
            "service_tier" => self.plain(table.service_tier, name, value),
            "reasoning" => return self.reasoning(table.reasoning, &value),
            "parallel_tool_calls" => self.parallel(table, &value),
            "tool_choice" => return self.choice(table.tool_choice, &value),
            "cache" => self.cache(table.cache, &value),
            // Settings of the call itself.
            _ => {}
        }
        Ok(())
    }

    /// The parameters, and the settings that the vendor does not have.
    pub(super) fn finish(mut self, table: &SettingsTable) -> (RawObject, Vec<UnsupportedSetting>) {
        if table.reasoning == Reasoning::Thinking && self.requests_thinking {
            self.fit_thinking();
        }
        (self.params, self.unsupported)
    }

    fn plain(&mut self, path: Option<&str>, name: &str, value: Value) {
        match path {
            Some(path) => self.write(path, value),
            None => self.lacks(name, LACKING),
        }
    }

    fn lacks(&mut self, name: &str, reason: &'static str) {
        let (name, provider) = (name.to_owned(), self.provider.to_owned());
        self.unsupported.push(UnsupportedSetting { name, provider, reason });
    }

    fn wrong(&self, name: &str, expected: &str) -> UppError {
        UppError::invalid_request(self.provider, format!("settings.{name}: expected {expected}"))
    }

    /// Writes a value at a path of one or two members, unless the caller has set it.
    fn write(&mut self, path: &str, value: Value) {
        let (outer, inner) = path.split_once('.').unwrap_or((path, ""));
        let before = self.params.get(outer).filter(|value| !value.is_null());
        let value = match (inner, before) {
            ("", None) => value,
            ("", Some(_)) => return,
            // The vendor's parameters may be written without the outer member too.
            (inner, _) if is_flat(outer) && self.params.get(inner).is_some() => return,
            (inner, None) => json!({ inner: value }),
            (inner, Some(before)) => {
                let Ok(Value::Object(mut members)) = before.to::<Value>() else { return };
                members.entry(inner).or_insert(value);
                Value::Object(members)
            }
        };
        if let Ok(raw) = RawJson::from_value(&value) {
            self.params.insert(outer, raw);
        }
    }

    fn reasoning(&mut self, form: Reasoning, value: &Value) -> Result<(), UppError> {
        let expected = "\"low\", \"medium\", \"high\", another effort of the vendor, or a budget of tokens";
        let (effort, budget) = match value {
            Value::String(effort) => (effort.as_str(), budget_of(effort)),
            Value::Number(number) => {
                let budget = number.as_u64().ok_or_else(|| self.wrong("reasoning", expected))?;
                (effort_of(budget), Some(budget))
            }
            _ => return Err(self.wrong("reasoning", expected)),
        };
        self.requests_thinking = self.params.get("thinking").is_none();
        let is_off = effort == "none" || budget == Some(0);
        match form {
            Reasoning::None => self.lacks("reasoning", LACKING),
            Reasoning::Effort(path) => self.write(path, json!(effort)),
            Reasoning::EffortOrBudget if value.is_number() => {
                self.write("reasoning.max_tokens", json!(budget))
            }
            Reasoning::EffortOrBudget => self.write("reasoning.effort", json!(effort)),
            Reasoning::Thinking if is_off => self.write("thinking", json!({"type": "disabled"})),
            Reasoning::Thinking if is_adaptive(self.model_id) => {
                self.write("thinking", json!({"type": "adaptive"}));
                self.write("output_config.effort", json!(effort));
            }
            Reasoning::Thinking => {
                let budget = budget.unwrap_or(ANSWER_TOKENS).max(LEAST_THINKING);
                self.write("thinking", json!({"type": "enabled", "budget_tokens": budget}));
            }
            Reasoning::Switch => {
                let state = if is_off { "disabled" } else { "enabled" };
                self.write("thinking", json!({ "type": state }));
            }
            Reasoning::ThinkingConfig if takes_levels(self.model_id) && !value.is_number() => {
                self.write("generationConfig.thinkingConfig", json!({"thinkingLevel": effort}));
            }
            Reasoning::ThinkingConfig => {
                self.write("generationConfig.thinkingConfig", json!({"thinkingBudget": budget.unwrap_or(0)}));
            }
            Reasoning::ModelField => self.model_field(effort, budget, is_off),
            Reasoning::Think if is_off => self.write("think", json!(false)),
            Reasoning::Think => {
                self.write("think", if takes_efforts(self.model_id) { json!(effort) } else { json!(true) })
            }
        }
        Ok(())
    }

    /// Reasoning of the model behind Bedrock, whose name has that of its vendor.
    fn model_field(&mut self, effort: &str, budget: Option<u64>, is_off: bool) {
        const FIELDS: &str = "additionalModelRequestFields";
        if let Some((_, claude)) = self.model_id.split_once("anthropic.") {
            if is_off {
                return;
            }
            if is_adaptive(claude) {
                self.write("additionalModelRequestFields.thinking", json!({"type": "adaptive"}));
                self.write("outputConfig.effort", json!(effort));
                return;
            }
            let budget = budget.unwrap_or(ANSWER_TOKENS).max(LEAST_THINKING);
            let limits = self.params.get("inferenceConfig").and_then(RawObject::from_raw).unwrap_or_default();
            let most = limits.get("maxTokens").and_then(|most| most.to::<u64>().ok());
            let budget = match most {
                Some(most) if most <= LEAST_THINKING => {
                    return self.lacks("reasoning", "thinking needs max_tokens above 1024");
                }
                Some(most) if most <= budget => LEAST_THINKING.max(most / 2),
                Some(_) => budget,
                None => {
                    self.write("inferenceConfig.maxTokens", json!(budget.saturating_add(ANSWER_TOKENS)));
                    budget
                }
            };
            self.write(&format!("{FIELDS}.thinking"), json!({"type": "enabled", "budget_tokens": budget}));
        } else if self.model_id.contains("amazon.nova-2") {
            let config = if is_off {
                json!({"type": "disabled"})
            } else {
                json!({"type": "enabled", "maxReasoningEffort": effort})
            };
            self.write(&format!("{FIELDS}.reasoningConfig"), config);
        } else if self.model_id.contains("openai.") {
            self.write(&format!("{FIELDS}.reasoning_effort"), json!(effort));
        } else {
            self.lacks("reasoning", LACKING);
        }
    }

    fn parallel(&mut self, table: &SettingsTable, value: &Value) {
        let Some(path) = table.parallel_tool_calls else { return self.lacks("parallel_tool_calls", LACKING) };
        if !self.has_tools {
            return;
        }
        if table.tool_choice != Choice::Messages {
            return self.write(path, value.clone());
        }
        self.write(path, json!(*value == json!(false)));
        self.write("tool_choice.type", json!("auto"));
    }

    fn choice(&mut self, form: Choice, value: &Value) -> Result<(), UppError> {
        let expected = "\"auto\", \"none\", \"required\" or the name of a tool";
        let Some(chosen) = value.as_str() else { return Err(self.wrong("tool_choice", expected)) };
        if form == Choice::None {
            self.lacks("tool_choice", LACKING);
            return Ok(());
        }
        // Vendors refuse the choice if there are no tools.
        if !self.has_tools && self.params.get("tools").is_none() {
            return Ok(());
        }
        let is_word = matches!(chosen, "auto" | "none" | "required");
        match form {
            Choice::Chat | Choice::Responses if is_word => self.write("tool_choice", json!(chosen)),
            Choice::Responses => self.write("tool_choice", json!({"type": "function", "name": chosen})),
            Choice::Messages => {
                let kind = match chosen {
                    "required" => "any",
                    "auto" | "none" => chosen,
                    name => {
                        self.write("tool_choice.name", json!(name));
                        "tool"
                    }
                };
                self.choose_kind(kind);
            }
            Choice::Converse if chosen == "none" => self.lacks("tool_choice", "the vendor has no \"none\""),
            Choice::Converse => {
                let choice = match chosen {
                    "auto" => json!({"auto": {}}),
                    "required" => json!({"any": {}}),
                    name => json!({"tool": {"name": name}}),
                };
                self.write("toolConfig.toolChoice", choice);
            }
            Choice::Gemini => {
                let config = match chosen {
                    "auto" => json!({"mode": "AUTO"}),
                    "none" => json!({"mode": "NONE"}),
                    "required" => json!({"mode": "ANY"}),
                    name => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
                };
                self.write("toolConfig.functionCallingConfig", config);
            }
            _ => self.write("tool_choice", json!({"type": "function", "function": {"name": chosen}})),
        }
        Ok(())
    }

    /// Sets the type of Anthropic's choice. A choice against tools has no member for parallel calls.
    fn choose_kind(&mut self, kind: &str) {
        let before = self.params.get("tool_choice").and_then(|choice| choice.to::<Value>().ok());
        let is_set_by_settings = before.as_ref().is_some_and(|choice| {
            *choice.get("type").unwrap_or(&Value::Null) == json!("auto")
                && choice.get("disable_parallel_tool_use").is_some()
        });
        match before {
            _ if kind == "none" && is_set_by_settings => {
                self.params.insert("tool_choice", raw(&json!({"type": kind})))
            }
            Some(Value::Object(mut choice)) if is_set_by_settings => {
                choice.insert("type".to_owned(), json!(kind));
                self.params.insert("tool_choice", raw(&Value::Object(choice)));
            }
            _ => self.write("tool_choice.type", json!(kind)),
        }
    }

    fn cache(&mut self, form: Caching, value: &Value) {
        let is_off = matches!(value.as_str(), Some("off" | "none")) || *value == json!(false);
        let is_marked = match form {
            Caching::Control | Caching::Points => true,
            Caching::Gateway => self.model_id.starts_with("anthropic/"),
            Caching::Automatic => false,
            Caching::None => return self.lacks("cache", "the vendor has no cache of prompts"),
        };
        if !is_marked || is_off {
            return;
        }
        let kind = if form == Caching::Points { "default" } else { "ephemeral" };
        let mut control = json!({ "type": kind });
        if let (Some(members), Some(duration @ ("5m" | "1h"))) = (control.as_object_mut(), value.as_str()) {
            members.insert("ttl".to_owned(), json!(duration));
        }
        self.write(if form == Caching::Points { "cachePoint" } else { "cache_control" }, control);
    }

    /// Anthropic requires more tokens for the answer than for its thinking, and no temperature with it.
    fn fit_thinking(&mut self) {
        let Some(thinking) = self.params.get("thinking").and_then(|thinking| thinking.to::<Value>().ok())
        else {
            return;
        };
        if thinking.get("type") == Some(&json!("disabled")) {
            return;
        }
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
        let most = self.params.get("max_tokens").and_then(|most| most.to::<u64>().ok());
        match (budget, most) {
            (Some(budget), Some(most)) if most <= budget && most <= LEAST_THINKING => {
                self.params.remove("thinking");
                return self.lacks("reasoning", "thinking needs max_tokens above 1024");
            }
            (Some(budget), Some(most)) if most <= budget => {
                let budget = LEAST_THINKING.max(most / 2);
                self.params.insert("thinking", raw(&json!({"type": "enabled", "budget_tokens": budget})));
            }
            (Some(budget), None) => {
                self.params.insert("max_tokens", raw(&json!(budget.saturating_add(ANSWER_TOKENS))));
            }
            _ => {}
        }
        if self.params.remove("temperature").is_some() {
            self.lacks("temperature", "models that think take no temperature");
        }
        let share = self.params.get("top_p").and_then(|share| share.to::<f64>().ok());
        if share.is_some_and(|share| share < LEAST_TOP_P) {
            self.params.remove("top_p");
            self.lacks("top_p", "models that think take top_p from 0.95 to 1");
        }
    }
}

fn raw(value: &Value) -> RawJson {
    RawJson::from_value(value).unwrap_or_default()
}

/// True for members whose own members are accepted beside them too.
fn is_flat(outer: &str) -> bool {
    matches!(outer, "generationConfig" | "options")
}

fn budget_of(effort: &str) -> Option<u64> {
    match effort {
        "none" => Some(0),
        "minimal" => Some(LEAST_THINKING),
        "xhigh" | "max" => Some(32_768),
        other => BUDGETS.iter().find(|(name, _)| *name == other).map(|(_, budget)| *budget),
    }
}

fn effort_of(budget: u64) -> &'static str {
    match budget {
        0 => "none",
        _ => BUDGETS.iter().find(|(_, most)| budget <= *most).map_or("high", |(name, _)| *name),
    }
}

/// True for models of Anthropic that choose their budget of thinking.
fn is_adaptive(model_id: &str) -> bool {
    const FIRST: (u32, u32) = (4, 6);
    let families = ["claude-opus-", "claude-sonnet-", "claude-haiku-", "claude-fable-", "claude-mythos-"];
    let Some(rest) = families.iter().find_map(|family| model_id.strip_prefix(family)) else { return false };
    let mut numbers = rest.split(['-', '.', '@']).map_while(|part| part.parse::<u32>().ok());
    let mut version = || numbers.next().filter(|number| *number < 100);
    let major = version();
    major.is_some_and(|major| (major, version().unwrap_or_default()) >= FIRST)
}

/// True for models of Google with levels of thinking.
fn takes_levels(model_id: &str) -> bool {
    let version = model_id.trim_start_matches("models/").strip_prefix("gemini-");
    let major = version.and_then(|version| version.split(['.', '-']).next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 3)
}

/// True for models of Ollama whose `think` is an effort.
fn takes_efforts(model_id: &str) -> bool {
    model_id.starts_with("gpt-oss")
}
