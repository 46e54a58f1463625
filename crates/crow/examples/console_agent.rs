//! An agent with its own loop, at the terminal: `console_agent MODEL TASK`.

use std::{error::Error, sync::Arc, time::Duration};

use crow::{prelude::*, tokio};

const SYSTEM: &str = "You are a coding agent. Use the tools to do the task.";

async fn own_loop(
    mut agent: AgentInternals,
    model: ResolvedModel,
    tools: ToolRegistry,
) -> Result<(), AgentError> {
    loop {
        agent.set_state(AgentState::Idle).await?;
        let InputMessage::UserInput { run_id, content, .. } = agent.receive().await? else {
            continue;
        };
        let run = agent.start_run(run_id).await?;
        agent.add_input(InputSource::Prompt, None, content).await?;
        loop {
            let (definitions, config) = (tools.definitions(), ModelConfig::default());
            let call = ModelCall::new(&model, SYSTEM, &definitions, &config);
            let (reply_id, reply) = agent.call_model(call, &run.cancel).await?;
            let calls: Vec<_> =
                reply.calls().map(|call| RequestedCall::run(call.clone())).collect();
            if calls.is_empty() {
                break;
            }
            agent.call(&tools, &reply_id, calls, &run.cancel).await?;
        }
        agent.end_run(run, RunOutcome::NeedsInput).await?;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, task] = &args[..] else { return Err("usage: console_agent MODEL TASK".into()) };
    let environment = ProcessEnvironment::from_process();
    let models = crow::app::product::models(&environment, &[])?;
    let model = models.resolve(&model.parse()?).await?;
    let runtime = AgentRuntime::new(RuntimeConfig {
        answerer: Arc::new(HandleAnswerer), // the console answers
        child_env: environment.child_environment(&models.key_variables()),
        ..RuntimeConfig::default()
    });
    let (reference, cwd) = (model.info.reference.clone(), std::fs::canonicalize(".")?);
    let session = AgentSession::create(runtime.config(), SessionSpec::new("own", reference, cwd))?;
    let mut tools = ToolRegistry::new();
    register_builtin(&mut tools);
    let handle = runtime.spawn(session, |agent| own_loop(agent, model, tools));
    let style = ConsoleStyle::of_process(|name| environment.var(name));
    let mut console = AgentConsole::new(handle, style)?;
    console.send_input(task)?;
    console.run().await?;
    runtime.shutdown_all(Duration::from_secs(3)).await;
    Ok(())
}
