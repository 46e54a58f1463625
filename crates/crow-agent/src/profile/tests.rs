use crow_core::{
    model::{ModelConfig, ModelRef, Thinking, ToolCallFormat},
    tool::{
        CallPlan, ToolCategory, ToolContext, ToolRegistry, ToolResult, TypedTool, TypedToolAdapter,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::*;
use crate::{
    definition::{SHIPPED, ToolNames},
    layers::{ConfigLayer, LayerKind, Layers},
};

const TOOLS: [&str; 6] = ["apply_patch", "bash", "edit_file", "read_file", "think", "todo_read"];

fn with_files(files: &[(&str, &str)]) -> ProfileRegistry {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    let user = ConfigLayer::memory(LayerKind::User, "user", files.collect());
    let layers = Layers::new(vec![ConfigLayer::shipped(SHIPPED), user]);
    ProfileRegistry::new(layers, ToolNames::new(TOOLS))
}

fn name_for(registry: &ProfileRegistry, model: &str) -> String {
    let model: ModelRef = model.parse().unwrap();
    registry.for_model(&model).unwrap().name
}

#[test]
fn a_model_gets_the_profile_of_its_family() {
    let shipped = with_files(&[]);
    for (model, profile) in [
        ("anthropic/claude-sonnet-4-5", "claude"),
        ("bedrock/eu.anthropic.claude-opus-4-1", "claude"),
        ("openai/gpt-5.2", "gpt"),
        ("openrouter/openai/gpt-5-codex", "gpt"),
        ("google/gemini-3-pro", "gemini"),
        ("ollama/qwen2.5-coder:1.5b", "small"),
        ("llamacpp/Qwen2.5-Coder-7B-Instruct-Q4_K_M.gguf", "small"),
        ("ollama/qwen3-coder:30b", "medium"),
        ("ollama/gpt-oss:20b", "medium"),
        ("zai/glm-4.6", "default"),
        ("openrouter/qwen/qwen3-coder-480b-a35b", "default"),
    ] {
        assert_eq!(name_for(&shipped, model), profile, "{model}");
    }
}

#[test]
fn a_file_of_the_user_changes_a_shipped_profile_key_by_key() {
    let registry = with_files(&[("profiles/small.toml", "[match]\nmodels = [\"lab/*\"]\n")]);
    assert_eq!(name_for(&registry, "lab/tiny"), "small");
    let profile = registry.for_model(&"ollama/x:3b".parse().unwrap()).unwrap();
    assert_eq!(profile.tool_calls, Some(ToolCallFormat::CodeBlocks));
}

#[test]
fn a_profile_of_the_user_is_tried_before_the_shipped_ones() {
    let registry = with_files(&[("profiles/mine.toml", "[match]\nmodels = [\"*/CLAUDE-*\"]\n")]);
    assert_eq!(name_for(&registry, "anthropic/claude-sonnet-4-5"), "mine");
    let names: Vec<_> = registry.list().into_iter().map(|listed| listed.name).collect();
    assert_eq!(names.first().map(String::as_str), Some("mine"));
    assert_eq!(names.last().map(String::as_str), Some("default"));
}

#[test]
fn a_mistake_in_a_profile_is_reported_with_its_place() {
    for (text, expected) in [
        ("[profile]\nordre = 1\n", "profiles/a.toml:2:1"),
        ("[match]\nmax_parameters = 0\n", "profiles/a.toml:2:1"),
        ("[match]\nmax_parameters = nan\n", "profiles/a.toml:2:1"),
        ("[tools]\nleave_out = [\"thinks\"]\n", "did you mean \"think\""),
        ("[tools.describe.edit]\ndescription = \"x\"\n", "profiles/a.toml"),
        ("[tools]\nedit = \"sed\"\n", "profiles/a.toml:2:8"),
        ("[thinking]\nopening = \"much\"\nbetween = \"low\"\n", "profiles/a.toml:2"),
    ] {
        let registry = with_files(&[("profiles/a.toml", text)]);
        let error = registry.for_model(&"x/y".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        let listed = registry.list();
        assert!(listed.iter().any(|listed| listed.name == "a" && listed.profile.is_err()));
    }
}

#[test]
fn a_step_after_a_refused_claim_thinks_like_the_last_ones() {
    let thinking = StepThinking {
        opening: Thinking::High,
        opening_steps: 2,
        between: Thinking::Low,
        closing: Thinking::Medium,
    };
    let config = ModelConfig::default();
    for (step, is_closing, expected) in [
        (0, false, Thinking::High),
        (1, false, Thinking::High),
        (2, false, Thinking::Low),
        (0, true, Thinking::Medium),
        (9, true, Thinking::Medium),
    ] {
        assert_eq!(thinking.config(&config, step, is_closing).thinking, Some(expected));
    }
}

macro_rules! test_tool {
    ($tool:ident, $name:literal) => {
        struct $tool;

        #[async_trait::async_trait]
        impl TypedTool for $tool {
            type Input = TestInput;
            const NAME: &'static str = $name;
            const CATEGORY: ToolCategory = ToolCategory::Write;

            fn description(&self) -> &str {
                "Its own description."
            }

            async fn execute(&self, _: TestInput, _: &CallPlan, _: &ToolContext) -> ToolResult {
                ToolResult::success("done")
            }
        }
    };
}

#[derive(Deserialize, JsonSchema)]
struct TestInput {
    /// The path.
    #[expect(dead_code, reason = "only its schema matters")]
    path: String,
    /// Several edits.
    #[expect(dead_code, reason = "only its schema matters")]
    edits: Vec<String>,
}

test_tool!(TestEdit, "edit_file");
test_tool!(TestPatch, "apply_patch");
test_tool!(TestThink, "think");
test_tool!(TestWrite, "write_file");

#[test]
fn tools_are_left_out_swapped_and_described_anew() {
    let mut available = ToolRegistry::new();
    available.register(TypedToolAdapter::new(TestEdit));
    available.register(TypedToolAdapter::new(TestPatch));
    available.register(TypedToolAdapter::new(TestThink));
    available.register(TypedToolAdapter::new(TestWrite));
    let agent_tools = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        available.for_agent(&names).0
    };
    let names = |tools: &ToolRegistry| tools.names().map(str::to_owned).collect::<Vec<_>>();
    let text = "[tools]\nedit = \"apply_patch\"\nleave_out = [\"think\"]\n";
    let registry = with_files(&[("profiles/a.toml", text)]);
    let profile = registry.for_model(&"x/y".parse().unwrap()).unwrap();
    for (given, expected) in [
        (vec!["edit_file", "think", "write_file"], vec!["apply_patch", "write_file"]),
        // An agent that can only do a part of what patches do gets none of them.
        (vec!["edit_file", "think"], vec!["edit_file"]),
        (vec!["think"], vec![]),
    ] {
        let mut tools = agent_tools(&given);
        profile.adapt(&mut tools, &available);
        assert_eq!(names(&tools), expected, "{given:?}");
        // The replaced tool can still be called.
        assert_eq!(tools.get("edit_file").is_some(), given.contains(&"edit_file"));
    }

    let text = "[tools.describe.edit_file]\ndescription = \"Edits.\"\nleave_out = [\"edits\"]\narguments.path = \"\"\n";
    let registry = with_files(&[("profiles/a.toml", text)]);
    let profile = registry.for_model(&"x/y".parse().unwrap()).unwrap();
    let mut tools = agent_tools(&["edit_file", "think"]);
    profile.adapt(&mut tools, &available);
    let definition = &tools.definitions()[0];
    assert_eq!(definition.description, "Edits.");
    assert_eq!(
        definition.parameters["properties"],
        serde_json::json!({"path": {"type": "string"}})
    );
    assert_eq!(definition.parameters["required"], serde_json::json!(["path"]));
    assert_eq!(tools.definitions()[1].description, "Its own description.");
}

#[test]
fn every_shipped_profile_can_be_used_and_says_what_it_is_for() {
    let shipped = with_files(&[]);
    for listed in shipped.list() {
        let profile = listed.profile.unwrap();
        assert!(!profile.description.is_empty(), "{}", listed.name);
        assert_eq!(listed.layer, LayerKind::BuiltIn);
    }
    assert_eq!(shipped.names().len(), 6);
}
