//! The environment of a coding agent as typed state: sections of Crow, and a type of your own beside them.
//!
//! Needs no model. Try it: `cargo run -p crow --example typed_environment`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{collections::BTreeMap, error::Error};

use crow::{
    prelude::*,
    serde::{Deserialize, Serialize},
};

/// What the agent designs: a type of this program, stored in the environment as an extension.
#[derive(Debug, Serialize, Deserialize)]
#[serde(crate = "crow::serde")]
struct CodeDesign {
    structs: Vec<StructDefinition>,
    design_patterns: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(crate = "crow::serde")]
struct StructDefinition {
    name: String,
    methods: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    // 1) The builder fills sections; those that are not given are empty.
    let mut environment = Environment::builder()
        .system(SystemState {
            working_directory: "/projects/agent".into(),
            permissions: vec!["read".to_owned(), "write".to_owned()],
            resources: BTreeMap::from([("memory limit".to_owned(), "8 GB".to_owned())]),
            ..SystemState::default()
        })
        .task(TaskState {
            objective: "Implement the environment of agents".to_owned(),
            status: TaskStatus::InProgress,
            steps_total: 4,
            current_step: Some("Explore the structure of the project".to_owned()),
            ..TaskState::default()
        })
        .build();

    // 2) Results of tools update it. In a run, the executor does this after each call.
    let tree = r#"{"tree": ["src/", "  lib.rs", "docs/", "Cargo.toml"]}"#;
    environment.update_from_tool_result("directory_tree", tree)?;
    let lines = environment.workspace().extra["directory_tree"]["tree"].as_array();
    println!("The directory tree has {} entries.", lines.map_or(0, Vec::len));

    // 3) Typed access: a misspelt field does not compile.
    environment.task_mut().steps_completed += 1;
    environment.task_mut().current_step = Some("Examine the existing code".to_owned());

    // 4) An extension is written and read as your own type. A value of another type is an error.
    let design = CodeDesign {
        structs: vec![StructDefinition {
            name: "Environment".to_owned(),
            methods: vec!["update_from_tool_result".to_owned()],
        }],
        design_patterns: vec!["observer".to_owned()],
    };
    environment.set_extension("code_design", design)?;
    let design: CodeDesign = environment.get_extension("code_design")?;
    let first = &design.structs[0];
    println!("Designing {} with {} method.", first.name, first.methods.len());
    println!("Patterns: {}.", design.design_patterns.join(", "));
    if let Err(error) = environment.get_extension::<u32>("code_design") {
        println!("Not a number: {error}.");
    }

    // 5) The text that a model is sent, within a budget of tokens.
    let mut context = ContextManager::new(environment, 4_000, "You write code.\n{{environment}}");
    println!("{}", context.build_prompt("Go on.")?);
    Ok(())
}
