use async_trait::async_trait;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::{
    ids::CallId,
    message::{CallArguments, ToolCall},
    tool::{
        CallPlan, Tool, ToolCategory, ToolContext, ToolError, ToolRegistry, ToolResult, TypedTool,
        TypedToolAdapter,
    },
};

/// A tool that accepts whatever fits its schema.
struct Stub {
    name: &'static str,
    schema: Value,
}

#[async_trait]
impl Tool for Stub {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &'static str {
        ""
    }

    fn parameters_schema(&self) -> Value {
        self.schema.clone()
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::Session
    }

    fn check(&self, input: &Value) -> Result<(), String> {
        let misfits = schema_misfits(&self.schema, input);
        if misfits.is_empty() { Ok(()) } else { Err(misfits.join("\n")) }
    }

    async fn plan(&self, _input: &Value, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects(self.name))
    }

    async fn execute(&self, _input: Value, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
        ToolResult::success("")
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    InPlace,
    Copy,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Edit {
    old_string: String,
    new_string: String,
    replace_all: Option<bool>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Options {
    depth: Option<u32>,
    label: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Arguments {
    path: String,
    limit: Option<u32>,
    ratio: Option<f64>,
    recursive: Option<bool>,
    mode: Option<Mode>,
    tags: Option<Vec<String>>,
    edits: Option<Vec<Edit>>,
    options: Option<Options>,
}

struct Everything;

#[async_trait]
impl TypedTool for Everything {
    type Input = Arguments;

    const NAME: &'static str = "everything";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        ""
    }

    async fn execute(&self, _input: Arguments, _: &CallPlan, _: &ToolContext) -> ToolResult {
        ToolResult::success("")
    }
}

fn registry(names: &[&'static str]) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register(TypedToolAdapter::new(Everything));
    for name in names {
        registry.register(Stub { name, schema: json!({"type": "object"}) });
    }
    registry
}

fn call(name: &str, arguments: CallArguments) -> ToolCall {
    ToolCall { id: CallId::new("c"), name: name.to_owned(), arguments }
}

fn resolve_text(text: &str) -> Result<ResolvedCall, InvalidCall> {
    resolve(&registry(&[]), &call("everything", CallArguments::parse(text)))
}

fn resolve_value(value: Value) -> Result<ResolvedCall, InvalidCall> {
    resolve(&registry(&[]), &call("everything", CallArguments::Json(value)))
}

// Names

#[test]
fn common_misspellings_of_a_name_are_resolved() {
    let registry = registry(&[
        "read_file",
        "write_file",
        "edit_file",
        "bash",
        "grep",
        "glob",
        "list_directory",
        "todo_write",
        "web_fetch",
        "ask_user",
        "mcp__github__create_issue",
    ]);
    for (given, found) in [
        ("read_file", "read_file"),
        ("Read_File", "read_file"),
        ("BASH", "bash"),
        ("functions.read_file", "read_file"),
        ("functions.read_file:3", "read_file"),
        ("tools.functions.bash", "bash"),
        ("default_api.bash", "bash"),
        ("mcp__files__read_file", "read_file"),
        ("mcp__github__create_issue", "mcp__github__create_issue"),
        ("read_file<|channel|>commentary", "read_file"),
        (" bash ", "bash"),
        ("readFile", "read_file"),
        ("ReadFile", "read_file"),
        ("read-file", "read_file"),
        ("Read", "read_file"),
        ("cat", "read_file"),
        ("create_file", "write_file"),
        ("str_replace", "edit_file"),
        ("MultiEdit", "edit_file"),
        ("run_shell_command", "bash"),
        ("Shell", "bash"),
        ("functions.Grep", "grep"),
        ("search", "grep"),
        ("LS", "list_directory"),
        ("list_dir", "list_directory"),
        ("TodoWrite", "todo_write"),
        ("WebFetch", "web_fetch"),
        ("AskUserQuestion", "ask_user"),
    ] {
        let resolved = resolve(&registry, &call(given, CallArguments::parse("{}"))).unwrap();
        assert_eq!(resolved.tool.name(), found, "{given}");
        assert_eq!(resolved.repairs.is_empty(), given == found, "{given}");
    }
}

#[test]
fn an_alias_counts_only_where_its_tool_exists() {
    let error = resolve(&registry(&["grep"]), &call("Read", CallArguments::parse("{}")));
    assert!(error.unwrap_err().message.starts_with("unknown_tool: there is no tool named Read."));
}

#[test]
fn a_tool_that_is_not_offered_is_found_by_its_names() {
    let all = registry(&["apply_patch", "edit_file", "write_file"]);
    let (chosen, _) = all.for_agent(&["edit_file".to_owned(), "write_file".to_owned()]);
    for given in ["apply_patch", "functions.apply_patch", "applyPatch", "patch"] {
        let resolved = resolve(&chosen, &call(given, CallArguments::parse("{}"))).unwrap();
        assert_eq!(resolved.tool.name(), "apply_patch", "{given}");
    }
    let (chosen, _) = all.for_agent(&["edit_file".to_owned()]);
    assert!(resolve(&chosen, &call("apply_patch", CallArguments::parse("{}"))).is_err());
}

#[test]
fn a_shell_line_that_calls_apply_patch_gets_a_hint_if_there_is_such_a_tool() {
    let hints = |names: &[&'static str], command: &str| {
        let arguments = CallArguments::Json(json!({ "command": command }));
        resolve(&registry(names), &call("bash", arguments)).unwrap().repairs
    };
    let hint = ["apply_patch is a tool, not a program: call it with the patch as `input`."];
    for command in [
        "apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF",
        "cd src && apply_patch <<EOF\n*** Begin Patch\n*** End Patch\nEOF",
        "ls\napply_patch<<EOF\nEOF",
    ] {
        assert_eq!(hints(&["apply_patch", "bash"], command), hint, "{command}");
        assert_eq!(hints(&["bash"], command), [""; 0], "{command}");
    }
    for command in
        ["cat apply_patch.rs", "./apply_patch x", "grep apply_patch .", "apply_patcher x"]
    {
        assert_eq!(hints(&["apply_patch", "bash"], command), [""; 0], "{command}");
    }
}

#[test]
fn a_name_that_two_tools_could_mean_is_unknown() {
    let registry = registry(&["read_file", "readfile"]);
    assert!(resolve(&registry, &call("ReadFile", CallArguments::parse("{}"))).is_ok());
    assert!(resolve(&registry, &call("read-file", CallArguments::parse("{}"))).is_err());
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_and_all_names() {
    let registry = registry(&["read_file", "write_file", "bash", "glob"]);
    let error = resolve(&registry, &call("raed_fiel", CallArguments::parse("{}"))).unwrap_err();
    assert_eq!(
        error.message,
        "unknown_tool: there is no tool named raed_fiel. The nearest are: read_file, write_file, bash. \
         All tools: bash, everything, glob, read_file, write_file."
    );
    let none = resolve(&ToolRegistry::new(), &call(&"x".repeat(1000), CallArguments::parse("")));
    assert!(none.unwrap_err().message.len() < 150);
}

// Texts that are not JSON

#[test]
fn text_with_one_meaning_is_repaired() {
    for (text, value) in [
        ("```json\n{\"path\": \"a\"}\n```", json!({"path": "a"})),
        ("```\n{\"path\": \"a\"}", json!({"path": "a"})),
        ("{'path': 'it\\'s', 'limit': 3}", json!({"path": "it's", "limit": 3})),
        ("{\"path\": \"a\", \"tags\": [\"x\", \"y\",],}", json!({"path": "a", "tags": ["x", "y"]})),
        ("{path: \"a\", limit: 3}", json!({"path": "a", "limit": 3})),
        (
            "{\"path\": \"a\", \"recursive\": True, \"edits\": []}",
            json!({"path": "a", "recursive": true, "edits": []}),
        ),
        ("{\"path\": \"a\nb\tc\"}", json!({"path": "a\nb\tc"})),
        (r#"{"path": "\d+\.rs", "limit": 1}"#, json!({"path": r"\d+\.rs", "limit": 1})),
        ("{\"path\": \"a\\\nb\"}", json!({"path": "a\\\nb"})),
        (
            "{\"path\": \"a\" /* here */, // there\n \"limit\": 1 # and\n}",
            json!({"path": "a", "limit": 1}),
        ),
        ("{\"path\": \"a\", \"tags\": [\"x\", \"y\"", json!({"path": "a", "tags": ["x", "y"]})),
        ("{\"path\": \"a\"}}", json!({"path": "a"})),
        (r#"{"path": '\ud83d\ude00'}"#, json!({"path": "😀"})),
        (r#""{\"path\": \"a\"}""#, json!({"path": "a"})),
        (r#""{'path': 'a'}""#, json!({"path": "a"})),
    ] {
        let resolved = resolve_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(resolved.input, value, "{text}");
        assert_eq!(resolved.repairs.len().min(1), 1, "{text}");
    }
}

#[test]
fn ambiguous_text_is_refused() {
    for text in [
        // An unescaped quote.
        r#"{"path": "echo "hi""}"#,
        // A missing quote: the text after it would become part of the string.
        r#"{"path": "a}"#,
        r#"{"path": "a, "limit": 1}"#,
        // The end of a string is missing: half a command is another command.
        "{\"path\": \"a and b",
        // A missing comma, colon, value or bracket in the middle.
        r#"{"path": "a" "limit": 1}"#,
        r#"{"path" "a"}"#,
        r#"{"path": }"#,
        r#"{"path": "a", "tags": ["x", "limit": 1}"#,
        r#"{"path":"#,
        r#"{"path"#,
        r#"{"path": "a", , "limit": 1}"#,
        // Words, two documents, the same key twice.
        "{\"path\": a}",
        r#"{"path": "a"} {"path": "b"}"#,
        r#"{path: "a", path: "b"}"#,
        "Here is the call: {\"path\": \"a\"}",
        // Numbers and escapes that JSON does not have.
        "{'path': 'a', 'limit': 0x10}",
        "{'path': 'a', 'limit': 012}",
        "{'path': 'a', 'ratio': NaN}",
        r"{'path': '\x41'}",
        r#"{'path': "\ud83d"}"#,
        "{'path': 'a', /* and",
    ] {
        let error = resolve_text(text).expect_err(text);
        assert!(
            error
                .message
                .starts_with("The arguments of everything cannot be read: they are not JSON: "),
            "{error}"
        );
        assert!(error.message.contains("It takes one JSON object: path (string, required)"));
    }
}

#[test]
fn arguments_that_are_no_object_are_refused_with_their_type() {
    for (value, type_text) in [
        (json!([1]), "an array"),
        (json!(7), "a number"),
        (json!(true), "a boolean"),
        (json!("[1]"), "text that holds an array"),
    ] {
        let message = resolve_value(value).unwrap_err().message;
        assert!(message.contains(type_text), "{message}");
    }
    let resolved = resolve(&registry(&["bash"]), &call("bash", CallArguments::Json(Value::Null)));
    assert_eq!(resolved.unwrap().input, json!({}));
}

#[test]
fn a_syntax_error_says_where() {
    let message = resolve_text("{\"path\": \"a\",\n \"limit\" 1}").unwrap_err().message;
    assert!(
        message.contains("no colon after a key at line 2, column 10, before `1}`"),
        "{message}"
    );
}

// Values that do not fit

#[test]
fn values_are_coerced_only_where_they_do_not_fit() {
    for (given, fitted) in [
        (json!({"path": "a", "limit": "42"}), json!({"path": "a", "limit": 42})),
        (json!({"path": "a", "limit": 42.0}), json!({"path": "a", "limit": 42})),
        (json!({"path": "a", "ratio": "0.5"}), json!({"path": "a", "ratio": 0.5})),
        (json!({"path": "a", "recursive": "True"}), json!({"path": "a", "recursive": true})),
        (json!({"path": 42}), json!({"path": "42"})),
        (json!({"path": {"a": [1]}}), json!({"path": "{\"a\":[1]}"})),
        (json!({"path": "a", "tags": "x"}), json!({"path": "a", "tags": ["x"]})),
        (json!({"path": "a", "tags": "[\"x\", \"y\"]"}), json!({"path": "a", "tags": ["x", "y"]})),
        (json!({"path": "a", "tags": [1]}), json!({"path": "a", "tags": ["1"]})),
        (json!({"path": "a", "mode": "InPlace"}), json!({"path": "a", "mode": "in_place"})),
        (
            json!({"path": "a", "options": "{'depth': 2}"}),
            json!({"path": "a", "options": {"depth": 2}}),
        ),
        (
            json!({"path": "a", "edits": {"old_string": "x", "new_string": "y"}}),
            json!({"path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}),
        ),
        (
            json!({"path": "a", "edits": "[{\"oldString\": \"x\", \"new_str\": 1}]"}),
            json!({"path": "a", "edits": [{"old_string": "x", "new_string": "1"}]}),
        ),
        (json!({"PATH": "a", "limit": null, "tags": "x"}), json!({"path": "a", "tags": ["x"]})),
        (json!({"file_path": "a"}), json!({"path": "a"})),
    ] {
        let resolved =
            resolve_value(given.clone()).unwrap_or_else(|error| panic!("{given}: {error}"));
        assert_eq!(resolved.input, fitted, "{given}");
        assert!(!resolved.repairs.is_empty(), "{given}");
    }
}

#[test]
fn a_misspelt_optional_key_is_not_ignored() {
    let given = json!({"path": "a", "Limit": 3, "edits": [{"old_string": "x", "new_string": "y", "replaceAll": true}]});
    let resolved = resolve_value(given).unwrap();
    assert_eq!(resolved.input["limit"], 3);
    assert_eq!(resolved.input["edits"][0]["replace_all"], true);
    assert_eq!(
        resolved.repairs,
        [
            "The argument is named limit, not Limit.",
            "The argument is named edits[0].replace_all, not replaceAll."
        ]
    );
}

#[test]
fn ambiguous_values_are_refused_with_a_line_each() {
    for (given, lines) in [
        (
            json!({"limit": "many", "recursive": 1, "mode": "other", "tags": {"a": 1}}),
            vec![
                "path: missing, wanted string (required)",
                "limit: came \"many\" (string), wanted integer",
                "recursive: came 1, wanted boolean",
                "mode: came \"other\" (string), wanted one of \"in_place\", \"copy\"",
            ],
        ),
        (
            json!({"pth": "a"}),
            vec!["path: missing, wanted string (required)", "pth: unknown, did you mean path?"],
        ),
        (json!({"path": null}), vec!["path: came null, wanted string"]),
        (json!({"path": "a", "limit": 1.5}), vec!["limit: came 1.5, wanted integer"]),
        (
            json!({"path": "a", "edits": [{"old_string": "x"}]}),
            vec!["edits[0].new_string: missing, wanted string (required)"],
        ),
        (
            json!({"path": "a", "tags": "[x]"}),
            vec!["tags: came \"[x]\" (string), wanted array of string"],
        ),
        (
            json!({"path": "a", "tags": "[\"x\", \"y"}),
            vec!["tags: came \"[\\\"x\\\", \\\"y\" (string), wanted array of string"],
        ),
        // A limit that only the tool itself checks.
        (
            json!({"path": "a", "limit": -1}),
            vec!["limit: invalid value: integer `-1`, expected u32"],
        ),
        // Two keys for one argument.
        (
            json!({"filePath": "a", "file_path": "b"}),
            vec!["path: missing, wanted string (required)"],
        ),
    ] {
        let message = resolve_value(given.clone()).expect_err(&given.to_string()).message;
        assert!(message.starts_with("The arguments of everything do not fit:\n- "), "{message}");
        for line in lines {
            assert!(message.contains(&format!("- {line}\n")), "{line} is not in {message}");
        }
    }
}

#[test]
fn a_repair_is_told_in_one_line() {
    let resolved =
        resolve_value(json!({"path": 1, "limit": "2", "tags": null, "recursive": "true"}));
    insta::assert_snapshot!(resolved.unwrap().repairs.join("\n"), @r#"
    tags: null was left out.
    path: 1 was read as a string.
    limit: "2" was read as 2.
    recursive: "true" was read as true.
    "#);
    let resolved = resolve_text("```json\n{'path': 'a',}\n```").unwrap();
    insta::assert_snapshot!(resolved.repairs.join("\n"), @"The arguments were not strict JSON; mended: a code fence around it, single quotes, a trailing comma.");
}

#[test]
fn a_message_stays_short_for_any_input() {
    let long = "x".repeat(10_000);
    let fields: serde_json::Map<_, _> =
        (0..1000).map(|index| (format!("{long}{index}"), json!(long))).collect();
    for value in [
        json!({"limit": long, "path": "a"}),
        json!({"edits": vec![json!(5); 2_000], "path": "a"}),
        Value::Object(fields),
    ] {
        assert!(resolve_value(value).unwrap_err().message.len() < 8000);
    }
}

// Schemas

#[test]
fn schemas_of_other_programs_are_understood() {
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "shape": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]},
                {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
            ]},
            "node": {"$ref": "#/$defs/node"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "closed": {"type": "object", "properties": {"name": {"type": ["string", "null"]}}, "additionalProperties": false},
        },
        "$defs": {"node": {"allOf": [{"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}}}]}},
    });
    let fits = |value: Value| schema_misfits(&schema, &value);
    assert!(
        fits(json!({"id": null, "node": {"next": {"next": {"value": 1}}}, "other": 1})).is_empty()
    );
    assert_eq!(
        fits(json!({"node": {"next": {"value": "x"}}})),
        ["node.next.value: came \"x\" (string), wanted integer"]
    );
    assert_eq!(fits(json!({"id": "x"})), ["id: came \"x\" (string), wanted integer or null"]);
    assert_eq!(
        fits(json!({"shape": {"kind": "square"}})),
        ["shape.side: missing, wanted number (required)"]
    );
    assert_eq!(fits(json!({"map": {"a": "b"}})), ["map.a: came \"b\" (string), wanted integer"]);
    assert_eq!(fits(json!({"closed": {"nam": 1}})), ["closed.nam: unknown, did you mean name?"]);

    let mut registry = ToolRegistry::new();
    registry.register(Stub { name: "remote", schema: schema.clone() });
    let given = json!({"id": "7", "node": {"next": {"value": "3"}}, "map": {"a": "1"}, "shape": {"kind": "circle", "radius": "2"}});
    let resolved = resolve(&registry, &call("remote", CallArguments::Json(given))).unwrap();
    assert_eq!(
        resolved.input,
        json!({"id": 7, "node": {"next": {"value": 3}}, "map": {"a": 1}, "shape": {"kind": "circle", "radius": 2}})
    );
}

#[test]
fn a_hostile_schema_does_not_hang() {
    let doubled = json!({"$ref": "#/$defs/a"});
    let mut nested = json!("x");
    for _ in 0..100 {
        nested = json!({"a": nested, "b": 1});
    }
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "required": ["z"]}),
        json!({"anyOf": [doubled, doubled], "$defs": {"a": {"anyOf": [doubled, {"type": "object", "properties": {"a": doubled}, "required": ["z"]}]}}}),
        json!({"type": "array", "items": {"$ref": "#"}}),
    ] {
        let mut registry = ToolRegistry::new();
        registry.register(Stub { name: "hostile", schema });
        let _outcome = resolve(&registry, &call("hostile", CallArguments::Json(nested.clone())));
    }
}

// Bounds: anything that is not linear exceeds the time limit of the test run.

#[test]
fn deep_and_long_texts_neither_overflow_nor_hang() {
    for text in [
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
        format!("{{\"path\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{{'path': '{}'}}", "\\n".repeat(100_000)),
        format!("{{'path': 1 {}", "/**/".repeat(100_000)),
        format!("{{'path': {}", "\"".repeat(100_000)),
        "{\"a\":1,".repeat(100_000),
        format!("\"{}\"", "\\\"".repeat(100_000)),
        "```".repeat(100_000),
        "}".repeat(9 << 20),
    ] {
        assert!(resolve_text(&text).is_err() || text.len() < 1_000_000);
    }
}

// Property tests

/// Any JSON value that strict JSON parses back unchanged.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-zA-Z0-9 '\"\\\\{}\\[\\]:,/#\n\t]{0,12}",
        "\\PC{0,6}",
        Just("True".to_owned()),
        Just("// no comment".to_owned()),
        Just("```".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000i32..1000).prop_map(|n| Value::from(f64::from(n) / 8.0)),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    any_json().prop_map(|value| json!({"path": "a", "extra": value}))
}

/// The mistakes with which a document is written.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each fault comes with and without the others")]
struct Style {
    single_quotes: bool,
    python: bool,
    trailing_commas: bool,
    bare_keys: bool,
    comments: bool,
    raw_controls: bool,
}

fn any_style() -> impl Strategy<Value = Style> {
    any::<[bool; 6]>().prop_map(
        |[single_quotes, python, trailing_commas, bare_keys, comments, raw_controls]| Style {
            single_quotes,
            python,
            trailing_commas,
            bare_keys,
            comments,
            raw_controls,
        },
    )
}

impl Style {
    fn write(self, value: &Value, out: &mut String) {
        if self.comments {
            out.push_str(" /* \"no', */ ");
        }
        match value {
            Value::Null if self.python => out.push_str("None"),
            Value::Bool(true) if self.python => out.push_str("True"),
            Value::Bool(false) if self.python => out.push_str("False"),
            Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
            Value::String(text) => self.write_string(text, out),
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.comma(index, out);
                    self.write(item, out);
                }
                self.close(items.is_empty(), ']', out);
            }
            Value::Object(fields) => {
                out.push('{');
                for (index, (key, value)) in fields.iter().enumerate() {
                    self.comma(index, out);
                    let is_bare = key.chars().all(|c| c.is_ascii_alphabetic()) && !key.is_empty();
                    if self.bare_keys && is_bare {
                        out.push_str(key);
                    } else {
                        self.write_string(key, out);
                    }
                    out.push(':');
                    self.write(value, out);
                }
                self.close(fields.is_empty(), '}', out);
            }
        }
    }

    fn comma(self, index: usize, out: &mut String) {
        if index > 0 {
            out.push_str(if self.comments { ", // it's \"so\n" } else { ", " });
        }
    }

    fn close(self, is_empty: bool, close: char, out: &mut String) {
        if self.trailing_commas && !is_empty {
            out.push(',');
        }
        out.push(close);
    }

    fn write_string(self, text: &str, out: &mut String) {
        let json = Value::from(text).to_string();
        let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
        let mut json = json.unwrap().to_owned();
        if self.raw_controls {
            // Only if the backslash before the letter is not itself escaped.
            json = json.replace("\\\\", "\u{e000}").replace("\\n", "\n").replace("\\t", "\t");
            json = json.replace('\u{e000}', "\\\\");
        }
        if self.single_quotes {
            json = json.replace("\\\\", "\u{e000}").replace("\\\"", "\"").replace('\'', "\\'");
            json = json.replace('\u{e000}', "\\\\");
            out.extend(["'", &json, "'"]);
        } else {
            out.extend(["\"", &json, "\""]);
        }
    }
}

proptest! {
    #[test]
    fn valid_arguments_pass_unchanged(value in any_object()) {
        let resolved = resolve_text(&value.to_string()).unwrap();
        prop_assert_eq!(resolved.input, value);
        prop_assert!(resolved.repairs.is_empty());
    }

    #[test]
    fn a_document_in_another_style_is_read_as_the_original(value in any_object(), style in any_style(), is_fenced: bool) {
        let mut text = String::new();
        style.write(&value, &mut text);
        if is_fenced {
            text = format!("```json\n{text}\n```");
        }
        prop_assert_eq!(resolve_text(&text).unwrap().input, value, "{}", text);
    }

    #[test]
    fn a_cut_document_is_refused_or_read_as_a_part_of_the_original(value in any_object(), cut: prop::sample::Index) {
        let text = value.to_string();
        let cut = cut.index(text.len());
        let Some(front) = text.get(..cut) else { return Ok(()) };
        if let Ok(resolved) = resolve_text(front) {
            prop_assert!(is_part(&resolved.input, &value), "{} of {}", resolved.input, value);
        }
    }

    #[test]
    fn random_text_never_panics(text in "[\\[\\]{}:,'\"\\\\a-f0-9 ntu/#*`\n-]{0,60}") {
        let _outcome = resolve_text(&text);
    }

    #[test]
    fn any_text_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _outcome = resolve_text(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_value_for_any_field_is_made_fit_or_refused(path in any_json(), limit in any_json(), tags in any_json(), edits in any_json(), options in any_json()) {
        let given = json!({"path": path, "limit": limit, "tags": tags, "edits": edits, "options": options});
        if let Ok(resolved) = resolve_value(given) {
            prop_assert!(serde_json::from_value::<Arguments>(resolved.input).is_ok());
        }
    }

    #[test]
    fn any_name_is_found_or_refused(name in "\\PC{0,20}|(functions\\.|mcp__|tools\\.|:|_){0,9}bash") {
        let _outcome = resolve(&registry(&["bash"]), &call(&name, CallArguments::parse("{}")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_hundred_kilobytes_of_noise_never_hang(bytes in prop::collection::vec(any::<u8>(), 100_000)) {
        let noise = String::from_utf8_lossy(&bytes).into_owned();
        let _outcome = resolve_text(&noise);
        let _outcome = resolve_text(&format!("{{'path': '{}", noise.replace('\'', "")));
    }
}

/// Returns true if `cut` is `source` with its end missing.
fn is_part(cut: &Value, source: &Value) -> bool {
    match (cut, source) {
        (Value::Object(cut), Value::Object(source)) => {
            cut.iter().all(|(key, value)| source.get(key).is_some_and(|of| is_part(value, of)))
        }
        (Value::Array(cut), Value::Array(source)) => {
            cut.len() <= source.len() && cut.iter().zip(source).all(|(cut, of)| is_part(cut, of))
        }
        (Value::String(cut), Value::String(source)) => source.starts_with(cut.as_str()),
        // A number may be cut between its digits.
        (Value::Number(cut), Value::Number(source)) => {
            let (cut, source) = (cut.to_string(), source.to_string());
            source.starts_with(cut.trim_end_matches(".0"))
        }
        (cut, source) => cut == source,
    }
}
