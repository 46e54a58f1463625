//! The tool definitions that are sent to the model.

use crow_core::{
    model::ToolDefinition,
    tool::{ToolCategory, ToolRegistry},
};
use crow_tools::register_builtin;

fn registry() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    register_builtin(&mut registry);
    registry
}

#[test]
fn all_definitions_together_stay_small() {
    let definitions = registry().definitions();
    // A model gets either `edit_file` or `apply_patch`.
    let bytes: usize = definitions
        .iter()
        .filter(|tool| tool.name != "edit_file")
        .map(|tool| {
            tool.name.len() + tool.description.len() + tool.parameters.to_string().len() + 60
        })
        .sum();
    assert!(bytes < 7_500, "{bytes} bytes");
}

#[test]
fn the_tool_definitions_match_the_snapshot() {
    let render = |tool: &ToolDefinition| {
        format!("{}: {}\n{:#}", tool.name, tool.description, tool.parameters)
    };
    let definitions: Vec<String> = registry().definitions().iter().map(render).collect();
    insta::assert_snapshot!(definitions.join("\n\n"));
}

#[test]
fn each_tool_has_its_permission_category() {
    use ToolCategory::{Execute, Read, Session, Write};
    let registry = registry();
    let expected = [
        ("apply_patch", Write),
        ("ask_user", Session),
        ("bash", Execute),
        ("bash_kill", Session),
        ("bash_output", Session),
        ("edit_file", Write),
        ("glob", Read),
        ("grep", Read),
        ("list_directory", Read),
        ("read_file", Read),
        ("think", Session),
        ("todo_read", Session),
        ("todo_write", Session),
        ("write_file", Write),
    ];
    let actual: Vec<_> =
        registry.names().map(|name| (name, registry.category(name).unwrap())).collect();
    assert_eq!(actual, expected);
    for (name, category) in expected {
        assert_eq!(
            registry.get(name).unwrap().requires_permission(),
            category != Session,
            "{name}"
        );
    }
}
