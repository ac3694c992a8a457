//! Tools of clients.
//!
//! Spec: UAMP-1.0 §8.6

use turntree_core::json::RawJson;
use turntree_core::json::union::tagged_union;

object! {
    /// A function.
    FunctionDefinition {
        /// The name.
        pub name: String = "name",
        /// What the function does.
        pub description: Option<String> = "description",
        /// The JSON Schema of the arguments.
        pub parameters: Option<RawJson> = "parameters",
    }
}

object! {
    /// A tool that the client runs.
    FunctionTool {
        tag "type" = "function",
        /// The function.
        pub function: FunctionDefinition = "function",
    }
}

tagged_union! {
    /// A tool. Unknown types are tools that a vendor runs, for example `{"type": "web_search"}`.
    pub enum ToolDefinition by "type" {
        /// A tool that the client runs.
        Function(FunctionTool, boxed) = "function",
    }
}
