//! Gives an agent a tool of your own: `get_weather`, with a Rust type as its arguments.
//!
//! Try it:
//! `ANTHROPIC_API_KEY=… cargo run -p crow --example weather_tool -- anthropic/claude-sonnet-4-5 "How warm is it in Oslo?"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use crow::{
    prelude::*,
    schemars::{self, JsonSchema},
    serde::Deserialize,
    serde_json::{Value, json},
    tokio,
};

struct WeatherTool;

/// The arguments. The schema that the model gets is made of this type and of the comments of its fields.
#[derive(Deserialize, JsonSchema)]
#[serde(crate = "crow::serde")]
struct WeatherInput {
    /// The location to get weather for, such as "Oslo".
    location: String,
}

#[async_trait]
impl TypedTool for WeatherTool {
    type Input = WeatherInput;
    const NAME: &'static str = "get_weather";
    const CATEGORY: ToolCategory = ToolCategory::Network;

    fn description(&self) -> &'static str {
        "Get the current weather for a location."
    }

    /// A look at the weather changes nothing, so nobody is asked.
    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(
        &self,
        input: WeatherInput,
        _plan: &CallPlan,
        _ctx: &ToolContext,
    ) -> ToolResult {
        // A real tool would ask a weather service here.
        let (temperature, conditions) = match input.location.as_str() {
            "Oslo" => (41, "rain"),
            "San Francisco" => (72, "sunny"),
            // A failure goes to the model, which can correct its call. Arguments that do not fit the type fail, too.
            other => return ToolResult::failure(format!("no station is named \"{other}\"")),
        };
        let weather = json!({
            "location": input.location, "temperature": temperature, "conditions": conditions
        });
        ToolResult::success(weather.to_string())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, question] = &args[..] else {
        return Err("usage: weather_tool MODEL QUESTION".into());
    };
    let models = crow::app::product::models(&ProcessEnvironment::from_process(), &[])?;
    let model = models.resolve(&model.parse()?).await?;

    // The registry holds what the agent can call. The adapter generates the schema and parses the arguments.
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(WeatherTool));

    let context = ContextManager::new(Environment::default(), 4_000, "You report the weather.");
    let executor = AgentExecutor::new(context, tools, model, AgentConfig::default());
    println!("{}", executor.run(question).await?.into_answer()?);

    // The environment keeps the last result of each tool. `data_analysis` shows how to keep them otherwise.
    let context = executor.context();
    if let Ok(results) = context.environment().get_extension::<Value>("tool_results") {
        println!("The last result was {}.", results["get_weather"]);
    }
    Ok(())
}
