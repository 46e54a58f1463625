//! The environment of an agent with its own loop: `cargo run -p crow-context --example environment`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{collections::BTreeMap, error::Error};

use crow_context::environment::{
    DeltaOptions, Environment, EnvironmentRevision, StateSchema, SystemState, TaskState, TaskStatus,
};
use crow_core::context::TokenEstimator;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A value of the program itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Dataset {
    rows: usize,
    columns: Vec<String>,
}

/// What a model would be sent, message by message.
struct Prompt {
    messages: Vec<String>,
    told: EnvironmentRevision,
    counter: TokenEstimator,
}

impl Prompt {
    /// Begins a conversation with a snapshot of at most 2,000 tokens.
    fn begin(environment: &Environment) -> Self {
        let counter = TokenEstimator::new("", &[]);
        let snapshot = environment.to_context(2_000, &counter);
        let told = EnvironmentRevision::from_texts([snapshot.as_str()]);
        Self { messages: vec![snapshot], told, counter }
    }

    /// Appends what changed, if it is worth telling. Earlier messages stay as they are.
    fn update(&mut self, environment: &Environment) {
        let delta = environment.delta_since(&self.told, &DeltaOptions::default(), &self.counter);
        if let Some(delta) = delta {
            self.messages.push(delta.text);
            self.told = delta.revision;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut environment = Environment::builder()
        .system(SystemState {
            working_directory: "/srv/sales".into(),
            permissions: vec!["read".to_owned(), "write".to_owned()],
            resources: BTreeMap::from([("memory".to_owned(), "16 GB".to_owned())]),
            ..SystemState::default()
        })
        .task(TaskState {
            objective: "Analyze sales data and create a report".to_owned(),
            steps_total: 5,
            ..TaskState::default()
        })
        .build();

    let mut prompt = Prompt::begin(&environment);

    // Results of tools change the state by handlers.
    environment.register_handler("read_csv", |state, result| {
        let rows = result["rows"].as_u64().ok_or("the result has no number of rows")?;
        state.knowledge.discovered_facts.push(format!("the data has {rows} rows"));
        Ok(())
    });
    environment.update_from_tool_result("read_csv", r#"{"path": "sales.csv", "rows": 1250}"#)?;

    // Typed access, and access by JSON pointer.
    environment.task_mut().status = TaskStatus::InProgress;
    environment.task_mut().steps_completed += 1;
    environment.set("/task/current_step", "Compute totals")?;
    assert_eq!(environment.get::<u32>("/task/steps_total")?, 5);
    assert!(environment.set("/task/steps_total", "many").is_err());

    // Values of the program keep their types, and a schema can restrict them.
    let dataset = || Dataset { rows: 1250, columns: vec!["date".to_owned(), "sales".to_owned()] };
    environment.set_extension("dataset", dataset())?;
    assert_eq!(environment.get_extension::<Dataset>("dataset")?, dataset());
    let schema = StateSchema::new(json!({
        "properties": { "extensions": { "properties": { "dataset": { "required": ["rows"] } } } }
    }))?;
    let mut environment = environment.with_schema(schema)?;
    assert!(environment.set_extension("dataset", json!({})).is_err());

    // Nothing so far was urgent, so the model is told when the permissions change.
    prompt.update(&environment);
    assert_eq!(prompt.messages.len(), 1);
    environment.system_mut().permissions = vec!["read".to_owned()];
    prompt.update(&environment);

    println!("{}", prompt.messages.join("\n"));
    Ok(())
}
