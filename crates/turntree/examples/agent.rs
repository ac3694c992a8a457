//! Runs an agent with a tool, in Rust alone: no Python, no network, no keys.
//!
//! ```sh
//! cargo run --example agent
//! ```
//!
//! The model is scripted: it calls the tool once and then answers. For a real model, replace it with
//! `registry::model("anthropic:<model id>", ProviderConfig::default())`.

use std::error::Error;
use std::sync::Arc;

use turntree::agents::host::RunContext;
use turntree::agents::{Agent, AgentOptions, FunctionHost, Tool};
use turntree::core::ids::RandomIds;
use turntree::core::json::{Extra, RawJson};
use turntree::message::ToolDefinition;
use turntree::upp::System;
use turntree::upp::providers::scripted::{Reply, Scripted};

/// The tool: takes `{"city": …}` and returns the weather there.
fn weather() -> Result<Tool, Box<dyn Error>> {
    let definition = ToolDefinition {
        name: "weather".to_owned(),
        description: "Returns the weather in a city.".to_owned(),
        parameters: RawJson::from_text(
            r#"{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}"#
                .to_owned(),
        )?,
        metadata: None,
        extra: Extra::new(),
    };
    Ok(Tool::new(definition).with_function(|invocation| async move {
        Ok(RawJson::from_str_value(&format!("21 °C for {}", invocation.call.arguments.get())))
    }))
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = RawJson::from_text(r#"{"city":"Tokyo"}"#.to_owned())?;
    let model = Scripted::new([Reply::tool_call("weather", arguments), Reply::from("It is 21 °C in Tokyo.")]);
    let options = AgentOptions {
        model: Some(Arc::new(model)),
        system: Some(Arc::new(System::Text("You report the weather.".to_owned()))),
        tools: vec![weather()?],
        ..AgentOptions::default()
    };
    let agent = Agent::new(options, &RandomIds);

    // The host is the application behind the run: it calls the functions of the tools.
    let host = Arc::new(FunctionHost::new(Arc::clone(agent.tools())));
    let turn = agent.run("How warm is it in Tokyo?", RunContext::new(host)).await?;

    let execution = turn.tool_executions.first().ok_or("the tool was not called")?;
    assert_eq!(execution.result.as_string().as_deref(), Some(r#"21 °C for {"city":"Tokyo"}"#));
    assert_eq!(turn.response().text(), "It is 21 °C in Tokyo.");
    Ok(())
}
