//! A coding agent whose loop is your own: ask the model, answer its calls, until it has nothing more to call.
//!
//! Permissions, the log of the session, limits of output and cancelling come from the runtime. Try it in a project:
//! `ANTHROPIC_API_KEY=… cargo run -p crow --example coder_agent -- anthropic/claude-sonnet-4-5 "fix the failing test"`

use std::{error::Error, io, io::Write as _, sync::Arc, time::Duration};

use crow::{prelude::*, tokio};

const SYSTEM: &str = "You are a coding agent. Use the tools to do the task, then say what you did.";
const STEPS: u32 = 50;

/// The agent: one run for each input, until it is shut down.
async fn coder(
    mut agent: AgentInternals,
    model: ResolvedModel,
    tools: ToolRegistry,
) -> Result<(), AgentError> {
    loop {
        agent.set_state(AgentState::Idle).await?;
        // Shutdown ends this function with an error that says so. No tool of this agent runs outside.
        let (InputMessage::UserInput { run_id, content, .. }
        | InputMessage::Steering { run_id, content }) = agent.receive().await?
        else {
            continue;
        };
        let run = agent.start_run(run_id).await?;
        agent.add_input(InputSource::Prompt, None, content).await?;
        let outcome = match work(&mut agent, &model, &tools, &run).await {
            Ok(outcome) => outcome,
            Err(AgentError::Cancelled) => RunOutcome::Cancelled,
            Err(error) => Failure::other(error.to_string()).into(),
        };
        agent.close_open_calls().await?; // the model can be asked again, whatever happened
        agent.end_run(run, outcome).await?;
    }
}

/// One run: steps until the model calls nothing more.
async fn work(
    agent: &mut AgentInternals,
    model: &ResolvedModel,
    tools: &ToolRegistry,
    run: &RunGuard,
) -> Result<RunOutcome, AgentError> {
    let definitions = tools.definitions();
    let thinking = model.info.abilities.thinking.then_some(Thinking::Tokens(16_000));
    let config = &ModelConfig { thinking, ..ModelConfig::default() };
    for _ in 0..STEPS {
        agent.take_steering().await?; // what the user said meanwhile
        let call = ModelCall::new(model, SYSTEM, &definitions, config);
        let (reply_id, reply) = agent.call_model(call, &run.cancel).await?;
        // A call that was cut off must not run.
        let cut =
            (reply.stop == StopReason::MaxTokens).then(|| "your reply was cut off".to_owned());
        let run_or_refuse = |call: &_| RequestedCall {
            refusal: cut.clone(),
            ..RequestedCall::run(Clone::clone(call))
        };
        let calls: Vec<_> = reply.calls().map(run_or_refuse).collect();
        if calls.is_empty() && reply.stop != StopReason::Pause {
            return Ok(RunOutcome::NeedsInput);
        }
        // Permissions, questions, effects and results: each call has its answer in the history afterwards.
        agent.call(tools, &reply_id, calls, &run.cancel).await?;
    }
    Ok(RunOutcome::Stopped { reason: TurnEnd::MaxSteps { steps: STEPS } })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, task] = &args[..] else { return Err("usage: coder_agent MODEL TASK".into()) };
    let (reference, environment): (ModelRef, _) =
        (model.parse()?, ProcessEnvironment::from_process());
    let models = crow::app::product::models(&environment, &[])?;
    let model = models.resolve(&reference).await?;
    let rules = RuleSet::new([
        PermissionRule::allow_bash_prefix(["cargo", "test"]),
        PermissionRule::deny_bash_prefix(["git", "push"]),
    ])?;
    let config = RuntimeConfig {
        store: Arc::new(FileStore::new(".coder_agent/sessions")),
        policy: PermissionPolicy::new(PermissionMode::Ask).with_rules(rules),
        answerer: Arc::new(HandleAnswerer), // whoever holds the handle answers: the console
        child_env: environment.child_environment(&models.key_variables()),
        ..RuntimeConfig::default()
    };
    let spec = SessionSpec {
        abilities: model.info.abilities,
        ..SessionSpec::new("coder", reference, std::path::absolute(".")?.canonicalize()?)
    };
    let (session, runtime) = (AgentSession::create(&config, spec)?, AgentRuntime::new(config));
    let mut tools = ToolRegistry::new();
    register_builtin(&mut tools);
    let handle = runtime.spawn(session, |agent| coder(agent, model, tools));
    let style = ConsoleStyle::of_process(|name| environment.var(name));
    let mut console = AgentConsole::new(handle.clone(), style)?;
    console.send_input(task)?;
    console.run().await?;
    writeln!(io::stdout(), "\nsession {} is in .coder_agent/sessions", handle.session_id())?;
    runtime.shutdown_all(Duration::from_secs(3)).await;
    Ok(())
}
