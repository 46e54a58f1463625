//! A tool of a program's own, as the library guide of the book shows it.

use async_trait::async_trait;
use crow_core::tool::{
    CallPlan, ToolCategory, ToolContext, ToolRegistry, ToolResult, TypedTool, TypedToolAdapter,
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply, text},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Counts the words of a text.
#[derive(Debug)]
struct CountWords;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
struct CountWordsInput {
    /// The text.
    text: String,
}

#[async_trait]
impl TypedTool for CountWords {
    type Input = CountWordsInput;
    const NAME: &'static str = "count_words";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Counts the words of a text."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(
        &self,
        input: CountWordsInput,
        _plan: &CallPlan,
        _ctx: &ToolContext,
    ) -> ToolResult {
        ToolResult::success(format!("{} words", input.text.split_whitespace().count()))
    }
}

#[tokio::test]
async fn the_model_gets_the_result_of_a_tool_of_ones_own() {
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(CountWords));
    let model = ScriptedModel::new([
        reply([call("c1", "count_words", json!({"text": "one two three"}))]),
        reply([text("There are three.")]),
    ]);
    let options = HarnessOptions { tools, ..HarnessOptions::default() };
    let mut agent = AgentHarness::start(model, options);
    agent.run("How many words are these: one two three?").await;
    let requests = agent.model.requests();
    assert_eq!(requests[1].outline().last().unwrap(), "results: c1: 3 words");
}
