//! The words of each vendor for the common settings, as data.

/// Where a vendor expects each setting: a member, or the path of a member, such as `options.num_predict`. `None` if the
/// vendor does not have the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsTable {
    /// The most tokens of the answer.
    pub max_tokens: Option<&'static str>,
    /// The temperature.
    pub temperature: Option<&'static str>,
    /// The probability mass of the candidates.
    pub top_p: Option<&'static str>,
    /// The stop sequences, as a list.
    pub stop: Option<&'static str>,
    /// The seed of the sampling.
    pub seed: Option<&'static str>,
    /// How reasoning is requested.
    pub reasoning: Reasoning,
    /// Whether several tools may be called at once.
    pub parallel_tool_calls: Option<&'static str>,
    /// How the choice of tools is written.
    pub tool_choice: Choice,
    /// The service tier.
    pub service_tier: Option<&'static str>,
    /// How the cache of prompts is used.
    pub cache: Caching,
}

/// How reasoning is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasoning {
    /// Not at all.
    None,
    /// An effort at this path. A budget is converted.
    Effort(&'static str),
    /// The member `reasoning` with an effort or a budget.
    EffortOrBudget,
    /// `thinking` with a budget, or adaptive `thinking` with an effort, as the model takes it.
    Thinking,
    /// `thinking`, switched on or off.
    Switch,
    /// A member of `thinkingConfig`: a level for Gemini 3 and later, a budget for others.
    ThinkingConfig,
    /// `think`: an effort, or a bool.
    Think,
    /// A field of the model behind Bedrock, in the words of its vendor.
    ModelField,
}

/// How the choice of tools is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Not at all.
    None,
    /// A text, or the function inside `function`.
    Chat,
    /// A text, or the function beside the type.
    Responses,
    /// An object; also holds the choice of parallel calls.
    Messages,
    /// The member `functionCallingConfig` of `toolConfig`.
    Gemini,
    /// The member `toolChoice` of `toolConfig`.
    Converse,
}

/// How the cache of prompts is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// There is none.
    None,
    /// The vendor caches prompts by itself.
    Automatic,
    /// The member `cache_control` of the request.
    Control,
    /// `cachePoint`, which the dialect writes after the system prompt, the tools and the last message of the user.
    Points,
    /// As `Control` for Anthropic's models behind a gateway; others are cached by themselves.
    Gateway,
}

impl SettingsTable {
    /// Chat Completions of an unknown host.
    pub const CHAT: Self = Self {
        max_tokens: Some("max_tokens"),
        temperature: Some("temperature"),
        top_p: Some("top_p"),
        stop: Some("stop"),
        seed: Some("seed"),
        reasoning: Reasoning::Effort("reasoning_effort"),
        parallel_tool_calls: Some("parallel_tool_calls"),
        tool_choice: Choice::Chat,
        service_tier: Some("service_tier"),
        cache: Caching::Automatic,
    };

    /// Responses.
    pub const RESPONSES: Self = Self {
        max_tokens: Some("max_output_tokens"),
        stop: None,
        seed: None,
        reasoning: Reasoning::Effort("reasoning.effort"),
        tool_choice: Choice::Responses,
        ..Self::CHAT
    };

    /// Anthropic's Messages.
    pub const MESSAGES: Self = Self {
        stop: Some("stop_sequences"),
        seed: None,
        reasoning: Reasoning::Thinking,
        parallel_tool_calls: Some("tool_choice.disable_parallel_tool_use"),
        tool_choice: Choice::Messages,
        cache: Caching::Control,
        ..Self::CHAT
    };

    /// Gemini.
    pub const GEMINI: Self = Self {
        max_tokens: Some("generationConfig.maxOutputTokens"),
        temperature: Some("generationConfig.temperature"),
        top_p: Some("generationConfig.topP"),
        stop: Some("generationConfig.stopSequences"),
        seed: Some("generationConfig.seed"),
        reasoning: Reasoning::ThinkingConfig,
        parallel_tool_calls: None,
        tool_choice: Choice::Gemini,
        service_tier: None,
        cache: Caching::Automatic,
    };

    /// Converse.
    pub const CONVERSE: Self = Self {
        max_tokens: Some("inferenceConfig.maxTokens"),
        temperature: Some("inferenceConfig.temperature"),
        top_p: Some("inferenceConfig.topP"),
        stop: Some("inferenceConfig.stopSequences"),
        seed: None,
        reasoning: Reasoning::ModelField,
        parallel_tool_calls: None,
        tool_choice: Choice::Converse,
        service_tier: Some("serviceTier.type"),
        cache: Caching::Points,
    };

    /// Ollama.
    pub const OLLAMA: Self = Self {
        max_tokens: Some("options.num_predict"),
        temperature: Some("options.temperature"),
        top_p: Some("options.top_p"),
        stop: Some("options.stop"),
        seed: Some("options.seed"),
        reasoning: Reasoning::Think,
        parallel_tool_calls: None,
        tool_choice: Choice::None,
        service_tier: None,
        cache: Caching::Automatic,
    };

    const COMPLETIONS: Self = Self { max_tokens: Some("max_completion_tokens"), ..Self::CHAT };

    const XAI: Self = Self { service_tier: None, ..Self::COMPLETIONS };

    const MISTRAL: Self = Self {
        seed: Some("random_seed"),
        reasoning: Reasoning::None,
        service_tier: None,
        cache: Caching::None,
        ..Self::CHAT
    };

    const DEEPSEEK: Self = Self {
        seed: None,
        reasoning: Reasoning::Switch,
        parallel_tool_calls: None,
        service_tier: None,
        ..Self::CHAT
    };

    const MOONSHOT: Self = Self {
        seed: None,
        reasoning: Reasoning::Switch,
        parallel_tool_calls: None,
        service_tier: None,
        ..Self::CHAT
    };

    const OPENROUTER: Self =
        Self { reasoning: Reasoning::EffortOrBudget, cache: Caching::Gateway, ..Self::CHAT };

    /// Chat Completions of a vendor.
    pub fn of_chat(provider: &str) -> &'static Self {
        match provider {
            "openai" | "groq" | "cerebras" => &Self::COMPLETIONS,
            "xai" => &Self::XAI,
            "mistral" => &Self::MISTRAL,
            "deepseek" => &Self::DEEPSEEK,
            "moonshot" => &Self::MOONSHOT,
            "openrouter" => &Self::OPENROUTER,
            _ => &Self::CHAT,
        }
    }
}
