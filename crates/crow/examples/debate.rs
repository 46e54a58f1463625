//! Two agents debate: each answers what the other one said, until one of them agrees or the rounds are used up.
//!
//! Try it:
//! `ANTHROPIC_API_KEY=… cargo run -p crow --example debate -- anthropic/claude-sonnet-4-5 "Tabs are better than spaces."`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use crow::{prelude::*, tokio};

/// The word with which an agent ends the debate.
const AGREED: &str = "AGREED";
/// Number of statements after which the debate ends without agreement.
const STATEMENTS: usize = 6;
/// Tokens that one request of an agent may have. Older statements are left out.
const CONTEXT: u64 = 4_000;

/// Makes an agent that takes one side. It has no tools, and an own context that it keeps from statement to statement.
fn debater(side: &str, model: &ResolvedModel) -> AgentExecutor {
    let instructions = format!(
        "You debate {side} a thesis. Answer the last statement in three sentences. \
         If you are convinced, write {AGREED} and why."
    );
    let context = ContextManager::new(Environment::default(), CONTEXT, instructions);
    AgentExecutor::new(context, ToolRegistry::new(), model.clone(), AgentConfig::default())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, thesis] = &args[..] else { return Err("usage: debate MODEL THESIS".into()) };
    let models = crow::app::product::models(&ProcessEnvironment::from_process(), &[])?;
    let model = models.resolve(&model.parse()?).await?;

    let debaters = [("for", debater("for", &model)), ("against", debater("against", &model))];
    let mut statement = format!("The thesis: {thesis}");
    // The two take turns; what one says is the next input of the other.
    for (side, debater) in debaters.iter().cycle().take(STATEMENTS) {
        statement = debater.run(statement).await?.into_answer()?;
        println!("{side}: {statement}\n");
        if statement.contains(AGREED) {
            println!("The side {side} agreed.");
            return Ok(());
        }
    }
    println!("No agreement after {STATEMENTS} statements.");
    Ok(())
}
