//! Vendors and gateways with the Chat Completions API, as data.

use crate::dialects::chat::{ChatDialect, ChatOptions, Documents, Member, Replay, StructureForm};
use crate::endpoint::{Endpoint, KeyHeader};
use crate::provider::Capabilities;

/// A host: its name, its default URL, the environment variables of its key, and its differences.
struct Host {
    name: &'static str,
    base_url: &'static str,
    key_variables: &'static [&'static str],
    options: fn(ChatOptions) -> ChatOptions,
}

const IMAGES: Capabilities = Capabilities { image_input: true, ..Capabilities::TEXT };

fn with_images(options: ChatOptions) -> ChatOptions {
    ChatOptions { capabilities: IMAGES, ..options }
}

/// A gateway accepts what the vendor behind it accepts.
fn gateway(options: ChatOptions) -> ChatOptions {
    ChatOptions {
        capabilities: Capabilities { image_input: true, document_input: true, ..Capabilities::TEXT },
        documents: Documents::PdfData,
        ..options
    }
}

fn zai(options: ChatOptions) -> ChatOptions {
    ChatOptions {
        capabilities: IMAGES,
        structure: StructureForm::JsonObject,
        reasoning: Replay::Member("reasoning_content"),
        ..options
    }
}

/// Has no function calls; the sources of an answer are stored in the metadata.
fn perplexity(options: ChatOptions) -> ChatOptions {
    ChatOptions {
        capabilities: Capabilities { tools: false, ..IMAGES },
        metadata_members: &[Member::Citations],
        reports_cost: true,
        ..options
    }
}

/// A proxy of one's own: the key is optional.
fn litellm(options: ChatOptions) -> ChatOptions {
    let endpoint = Endpoint { key_is_optional: true, ..options.endpoint.clone() };
    ChatOptions { endpoint, ..gateway(options) }
}

const HOSTS: [Host; 10] = [
    Host {
        name: "huggingface",
        base_url: "https://router.huggingface.co/v1",
        key_variables: &["HF_TOKEN"],
        options: with_images,
    },
    Host {
        name: "cohere",
        base_url: "https://api.cohere.ai/compatibility/v1",
        key_variables: &["COHERE_API_KEY", "CO_API_KEY"],
        options: with_images,
    },
    Host {
        name: "together",
        base_url: "https://api.together.xyz/v1",
        key_variables: &["TOGETHER_API_KEY"],
        options: with_images,
    },
    Host {
        name: "fireworks",
        base_url: "https://api.fireworks.ai/inference/v1",
        key_variables: &["FIREWORKS_API_KEY"],
        options: with_images,
    },
    Host {
        name: "nebius",
        base_url: "https://api.studio.nebius.com/v1",
        key_variables: &["NEBIUS_API_KEY"],
        options: with_images,
    },
    Host {
        name: "zai",
        base_url: "https://api.z.ai/api/paas/v4",
        key_variables: &["ZAI_API_KEY"],
        options: zai,
    },
    Host {
        name: "perplexity",
        base_url: "https://api.perplexity.ai",
        key_variables: &["PERPLEXITY_API_KEY", "PPLX_API_KEY"],
        options: perplexity,
    },
    Host {
        name: "github",
        base_url: "https://models.github.ai/inference",
        key_variables: &["GITHUB_TOKEN", "GITHUB_API_KEY"],
        options: with_images,
    },
    Host {
        name: "vercel",
        base_url: "https://ai-gateway.vercel.sh/v1",
        key_variables: &["AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"],
        options: gateway,
    },
    Host {
        name: "litellm",
        base_url: "http://localhost:4000/v1",
        key_variables: &["LITELLM_API_KEY"],
        options: litellm,
    },
];

/// The names of the hosts.
pub fn names() -> impl Iterator<Item = &'static str> {
    HOSTS.iter().map(|host| host.name)
}

/// The dialect of a host; `None` for an unknown name.
pub fn host(name: &str) -> Option<ChatDialect> {
    let host = HOSTS.iter().find(|host| host.name == name)?;
    // Streams of hosts with several engines do not all end with `[DONE]`.
    let options = ChatOptions {
        ends_with_done: false,
        ..ChatOptions::vendor(host.name, host.base_url, host.key_variables)
    };
    Some(ChatDialect::new((host.options)(options)))
}

/// Azure `OpenAI`: the base URL has the deployment and the API version. The key is sent as `api-key`, a token of Entra
/// as a bearer token.
pub fn azure(base_url: String, has_token: bool) -> ChatDialect {
    let endpoint = Endpoint {
        key_header: if has_token { KeyHeader::Bearer } else { KeyHeader::Named("api-key") },
        base_url: base_url.into(),
        ..Endpoint::vendor("azure", "", &["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"])
    };
    ChatDialect::new(ChatOptions {
        endpoint,
        capabilities: Capabilities { image_input: true, document_input: true, ..Capabilities::TEXT },
        documents: Documents::PdfData,
        ..ChatOptions::vendor("azure", "", &[])
    })
}
