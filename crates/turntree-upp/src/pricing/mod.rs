//! The cost of a call, if the price is known for certain.
//!
//! `prices.json` holds list prices with date and source; rows added by the caller take precedence. Nothing is
//! estimated: the cost is unknown for a model without a row, for tokens without a price, for a prompt beyond the
//! length that the price covers, and for service tiers, provider tools and audio. A cost that the vendor reports takes
//! precedence.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::provenance::ModelIdentity;
use super::provider_tools;
use super::request::{ModelRequest, ModelResponse};
use turntree_core::json::RawJson;
use turntree_core::message::{ContentBlock, TokenUsage};

const BUILT_IN: &str = include_str!("prices.json");

/// The number of tokens that a price is for.
const MILLION: f64 = 1e6;

/// Prices of one or several models of a provider, in US dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The provider's name.
    pub provider: String,
    /// The vendor's names of the models; a trailing `*` matches any suffix.
    pub models: Vec<String>,
    /// The date of the prices, as `2025-12-01`.
    #[serde(default)]
    pub date: Option<String>,
    /// The source of the prices.
    #[serde(default)]
    pub source: Option<String>,
    /// The currency: `USD`.
    #[serde(default = "dollars")]
    pub currency: String,
    /// Price of input tokens.
    pub input: f64,
    /// Price of output tokens, reasoning included.
    pub output: f64,
    /// Price of tokens read from a cache.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Price of tokens written to a cache for the vendor's default lifetime.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// Price of tokens written to a cache for an hour.
    #[serde(default)]
    pub cache_write_1h: Option<f64>,
    /// The longest prompt that these prices cover, in tokens.
    #[serde(default)]
    pub up_to_input_tokens: Option<u64>,
}

fn dollars() -> String {
    "USD".to_owned()
}

impl Price {
    fn is_of(&self, provider: &str, model: &str) -> bool {
        let is_named = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => model == pattern,
        };
        self.provider == provider && self.models.iter().any(is_named)
    }

    /// The cost of a call; `None` if the price of some tokens is unknown.
    ///
    /// `cache_apart` is true if the vendor counts cached tokens in addition to the input tokens (Anthropic), not as
    /// part of them.
    pub fn cost(&self, usage: &TokenUsage, cache_apart: bool) -> Option<f64> {
        let (read, written) = (usage.cache_read_tokens, usage.cache_write_tokens);
        let cached = read.saturating_add(written);
        let (plain, prompt) = if cache_apart {
            (usage.input_tokens, usage.input_tokens.saturating_add(cached))
        } else {
            (usage.input_tokens.saturating_sub(cached), usage.input_tokens)
        };
        let has_usage = prompt > 0 || usage.output_tokens > 0;
        if !has_usage || self.up_to_input_tokens.is_some_and(|most| prompt > most) || self.currency != "USD" {
            return None;
        }
        let hour = usage.cache_write_1h_tokens.unwrap_or_default().min(written);
        let kinds = [
            (plain, Some(self.input)),
            (read, self.cache_read),
            (written - hour, self.cache_write),
            (hour, self.cache_write_1h),
            (usage.output_tokens, Some(self.output)),
        ];
        let sum =
            kinds.into_iter().filter(|(tokens, _)| *tokens > 0).try_fold(0.0, |sum, (tokens, price)| {
                #[expect(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
                let tokens = tokens as f64;
                price.map(|price| tokens.mul_add(price, sum))
            });
        // Rounded to twelve places, so that sums of decimals show no rounding error.
        sum.map(|sum| (sum / MILLION * 1e12).round() / 1e12)
    }
}

/// A price list; the first matching row applies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices(Vec<Price>);

static BUILT_IN_PRICES: LazyLock<Arc<Prices>> =
    LazyLock::new(|| Arc::new(serde_json::from_str(BUILT_IN).unwrap_or_default()));

static CURRENT: LazyLock<RwLock<Arc<Prices>>> = LazyLock::new(|| RwLock::new(Arc::clone(&BUILT_IN_PRICES)));

impl Prices {
    /// A list of only these rows.
    pub const fn new(rows: Vec<Price>) -> Self {
        Self(rows)
    }

    /// The list of this crate.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN_PRICES)
    }

    /// The list that calls use by default: that of this crate, until [`Self::set_current`] replaces it.
    pub fn current() -> Arc<Self> {
        Arc::clone(&CURRENT.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the list that calls use, for the whole process.
    pub fn set_current(prices: Arc<Self>) {
        *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = prices;
    }

    /// Adds rows before the others.
    #[must_use]
    pub fn with(&self, rows: Vec<Price>) -> Self {
        Self(rows.into_iter().chain(self.0.iter().cloned()).collect())
    }

    /// The rows in order.
    pub fn rows(&self) -> &[Price] {
        &self.0
    }

    /// The row of a model.
    pub fn find(&self, provider: &str, model: &str) -> Option<&Price> {
        self.0.iter().find(|price| price.is_of(provider, model))
    }
}

/// The cost of a call; `None` unless it is certain.
pub(super) fn cost_of(
    prices: &Prices,
    producer: ModelIdentity<'_>,
    cache_apart: bool,
    request: &ModelRequest,
    response: &ModelResponse,
) -> Option<f64> {
    #[derive(Deserialize, Default)]
    struct PricedMembers {
        #[serde(default)]
        model: Option<String>,
        #[serde(default)]
        service_tier: Option<String>,
    }
    let ModelIdentity { provider, model_id } = producer;
    let members = response.message.metadata.as_ref().and_then(|metadata| metadata.get(provider));
    let members: PricedMembers = members.and_then(|raw| raw.to().ok()).unwrap_or_default();
    // The vendor bills the model that answered. A gateway's own name for it matches no row.
    let answered = members.model.as_deref().filter(|model| !model.is_empty());
    let price = prices.find(provider, answered.unwrap_or(model_id))?;
    let is_usual = members.service_tier.as_deref().is_none_or(is_usual_tier) && has_list_price(request);
    is_usual.then(|| price.cost(&response.usage, cache_apart)).flatten()
}

fn is_usual_tier(tier: &str) -> bool {
    matches!(tier, "auto" | "default" | "standard" | "standard_only" | "on_demand")
}

/// Parameters that change the price: provider tools, audio or image output, speed and region.
const PRICED_APART: [&str; 6] =
    ["tools", "audio", "modalities", "responseModalities", "speed", "inference_geo"];

/// True if no part of the request has a price of its own.
fn has_list_price(request: &ModelRequest) -> bool {
    let params = &request.params;
    let is_set = |name: &str| params.get(name).is_some_and(|value| !matches!(value.get(), "null" | "[]"));
    let tier = params.get("service_tier").and_then(RawJson::as_string);
    let is_usual = tier.as_deref().is_none_or(is_usual_tier);
    let is_dear = PRICED_APART.into_iter().any(is_set);
    let has_sound = || {
        let blocks = request.messages.iter().flat_map(|message| message.content());
        blocks.into_iter().any(|block| matches!(block, ContentBlock::Audio(_) | ContentBlock::Video(_)))
    };
    let has_native = || request.tools.iter().any(provider_tools::is_native);
    is_usual && !is_dear && !has_native() && !has_sound()
}
