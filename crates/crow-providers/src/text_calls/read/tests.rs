use crow_core::{
    message::CallArguments,
    model::{ToolCallFormat, ToolDefinition},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn tools() -> Vec<ToolDefinition> {
    let tool = |name: &str, properties: Value| ToolDefinition {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters: json!({ "type": "object", "properties": properties }),
    };
    let mut read_file =
        tool("read_file", json!({ "path": {"type": "string"}, "limit": {"type": "integer"} }));
    read_file.parameters["required"] = json!(["path"]);
    vec![
        tool("bash", json!({ "command": {"type": "string"}, "timeout": {"type": "integer"} })),
        read_file,
        tool("write_file", json!({ "path": {"type": "string"}, "content": {"type": "string"} })),
        tool("todo_write", json!({ "items": {"type": "array"} })),
        tool("list", json!({})),
    ]
}

fn read(text: &str, format: ToolCallFormat) -> TextReading {
    read_text_calls(text, OfferedTools(&tools()), format, &|_| false)
}

/// Formats a reading: text in quotes, reasoning in brackets, calls with their arguments, the failure.
fn outline(reading: &TextReading) -> String {
    let parts = reading.parts.iter().map(|part| match part {
        ReadingPart::Text(text) => format!("{text:?}"),
        ReadingPart::Thinking(text) => format!("[{text}]"),
        ReadingPart::Call(call) => match &call.arguments {
            CallArguments::Json(value) => format!("{}{value}", call.name),
            CallArguments::Malformed(text) => format!("{} malformed {text:?}", call.name),
        },
    });
    let failure = reading.failure.iter().map(|failure| format!("!{failure:?}"));
    parts.chain(failure).collect::<Vec<_>>().join(" ")
}

/// Replies with a call of `read_file` for the file "a", and no text, in either format.
const PLAIN: &[(&str, &str)] = &[
    (
        "Hermes and Qwen",
        "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
    ),
    (
        "without an end tag",
        "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n",
    ),
    (
        "a type around it",
        "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}}</tool_call>",
    ),
    (
        "arguments called parameters",
        "<tool_call>{\"name\": \"read_file\", \"parameters\": {\"path\": \"a\"}}</tool_call>",
    ),
    (
        "an end tag of another name",
        "<tools>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
    ),
    ("tools", "<tools>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tools>"),
    (
        "a list",
        "<tool_calls>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}]</tool_calls>",
    ),
    (
        "wrappers in a wrapper",
        "<tool_calls>\n<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>\n</tool_calls>",
    ),
    (
        "function_call",
        "<function_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</function_call>",
    ),
    (
        "a code block in a tag",
        "<tool_call>\n```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```\n</tool_call>",
    ),
    (
        "a tag in a code block",
        "```xml\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>\n```",
    ),
    (
        "arguments beside the name",
        "<tool_call>{\"name\": \"read_file\", \"path\": \"a\"}</tool_call>",
    ),
    ("the name as the key", "<tool_call>{\"read_file\": {\"path\": \"a\"}}</tool_call>"),
    (
        "Qwen coder",
        "<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "Qwen coder without the first tag",
        "<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "Qwen coder without the last tag",
        "<function=read_file><parameter=path>a</parameter></function>",
    ),
    ("Llama", "<function=read_file>{\"path\": \"a\"}</function>"),
    (
        "Llama with a token",
        "<|python_tag|>{\"name\": \"read_file\", \"parameters\": {\"path\": \"a\"}}<|eom_id|>",
    ),
    (
        "Anthropic",
        "<function_calls>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a</parameter>\n</invoke>\n</function_calls>",
    ),
    (
        "MiniMax",
        "<minimax:tool_call>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
    (
        "DeepSeek 3.2",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read_file\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        "DeepSeek 3.1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\": \"a\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "DeepSeek 3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{\"path\": \"a\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "Kimi",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    (
        "GLM",
        "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    ),
    ("Mistral", "[TOOL_CALLS][{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}]"),
    ("Mistral with names", "[TOOL_CALLS]read_file[ARGS]{\"path\": \"a\"}"),
    ("Mistral with an id", "[TOOL_CALLS]read_file[CALL_ID]abc123[ARGS]{\"path\": \"a\"}"),
    ("Granite", "<|tool_call|>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}]"),
    (
        "gpt-oss",
        "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{\"path\": \"a\"}<|call|>",
    ),
    (
        "gpt-oss, recipient first",
        "<|start|>assistant to=functions.read_file<|channel|>commentary json<|message|>{\"path\": \"a\"}",
    ),
    ("Llama 3.2", "[read_file(path=\"a\")]"),
    ("Llama 3.2 with other quotes and spaces", "[ read_file ( path = 'a', ) ]\n"),
    ("Llama 4", "<|python_start|>[read_file(path=\"a\")]<|python_end|>"),
    ("Llama 3.1", "<|python_tag|>read_file.call(path=\"a\")<|eom_id|>"),
    ("Llama 3.1 without a method", "<|python_tag|>read_file(path=\"a\")"),
    ("Gemini", "```tool_code\nprint(default_api.read_file(path=\"a\"))\n```"),
    ("Gemini without print", "```tool_code\ndefault_api.read_file(path='a')\n```"),
    (
        "Gemini with a variable",
        "```tool_code\n# Look at it.\nfile = default_api.read_file(path='a')\nprint(file)\n```",
    ),
    (
        "Gemini with an invented output",
        "```tool_code\nprint(default_api.read_file(path='a'))\n```\n```tool_output\nx\n```\nDone.",
    ),
    ("Gemma", "```tool_code\nread_file(path=\"a\")\n```"),
    ("Gemma without a name", "```tool_code\nread_file(\"a\")"),
    (
        "JSON in tool_code",
        "```tool_code\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```",
    ),
    ("Python in a code block", "```python\nread_file(path=\"a\")\n```"),
    ("a list in a code block", "```\n[read_file(path=\"a\")]\n```"),
    ("bare JSON", "{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}"),
    ("a bare list", "[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}]\n"),
    (
        "bare JSON with an id",
        "{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}}",
    ),
    ("indented JSON", "  {\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}"),
    ("a code block", "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```"),
    (
        "a code block without an end",
        "```\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n",
    ),
    ("single quotes", "<tool_call>{'name': 'read_file', 'arguments': {'path': 'a'}}</tool_call>"),
    (
        "a trailing comma",
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\",}}</tool_call>",
    ),
    (
        "a bracket too few",
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}</tool_call>",
    ),
    (
        "a bracket too many",
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}}</tool_call>",
    ),
    (
        "the end of a turn",
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call><|im_end|>",
    ),
];

#[test]
fn every_known_form_of_a_call_is_read() {
    for (form, text) in PLAIN {
        for format in [ToolCallFormat::Native, ToolCallFormat::Text] {
            let outline = outline(&read(text, format));
            let name = if *form == "Kimi" {
                "functions.read_file:0"
            } else if form.starts_with("gpt-oss") {
                "functions.read_file"
            } else {
                "read_file"
            };
            assert_eq!(outline, format!("{name}{{\"path\":\"a\"}}"), "{form}: {text}");
        }
    }
}

/// Readings that are the same in either format.
const READINGS: &[(&str, &str)] = &[
    // Text around calls.
    ("I look.\n\n<tool_call>{\"name\": \"list\"}</tool_call>\n", r#""I look." list{}"#),
    (
        "First.\n<tool_call>{\"name\": \"list\"}</tool_call>\nThen.\n<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"b\"}}</tool_call>",
        r#""First." list{} "\nThen." read_file{"path":"b"}"#,
    ),
    (
        "<|channel|>analysis<|message|>I must look.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.list <|constrain|>json<|message|>{}<|call|>",
        r#"[I must look.] "I look." functions.list{}"#,
    ),
    (
        "<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
        r#"[Easy.] "Hello.""#,
    ),
    (
        "<tool_call>{\"name\": \"list\", \"arguments\": {}}\nThen.\n<tool_call>{\"name\": \"list\", \"arguments\": {\"a\": 1}}</tool_call>",
        r#"list{} "\nThen." list{"a":1}"#,
    ),
    (
        "<tool_calls><tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"list\", \"arguments\": {\"a\": 1}}</tool_call></tool_calls>",
        r#"list{} list{"a":1}"#,
    ),
    (
        "<tool_call>{\"name\": \"list\", \"arguments\": {}} as you wish</tool_call> Wait.",
        r#"list{} " Wait.""#,
    ),
    // Values.
    (
        "<function=bash>\n<parameter=command>\nls <a>\n  cat </parameter> x\n</parameter>\n<parameter=timeout>5</parameter>\n</function>",
        r#"bash{"command":"ls <a>\n  cat </parameter> x","timeout":5}"#,
    ),
    (
        "<invoke name=\"todo_write\"><parameter name=\"items\">[{\"a\": 1}]</parameter></invoke>",
        r#"todo_write{"items":[{"a":1}]}"#,
    ),
    (
        "<tool_call>{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"</tool_call> and <tool_result>\"}}</tool_call>",
        r#"write_file{"path":"a","content":"</tool_call> and <tool_result>"}"#,
    ),
    (
        "<tool_call>{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"one\ntwo\"}}</tool_call>",
        r#"write_file{"path":"a","content":"one\ntwo"}"#,
    ),
    // The arguments are not JSON, but the call is complete: the model is told what is wrong.
    (
        "<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"echo \"hi\"\"}}</tool_call>",
        r#"bash malformed "{\"command\": \"echo \"hi\"\"}""#,
    ),
    // Python.
    ("I look.\n```tool_code\nprint(default_api.list())\n```", r#""I look." list{}"#),
    (
        "[bash(command='ls -l \\'a\\'', timeout=5), list()]",
        r#"bash{"command":"ls -l 'a'","timeout":5} list{}"#,
    ),
    (
        "[todo_write(items=[{\"a\": True, 'b': None, }, (\"x\", -1.5e3, 0x10, 1_000), (\"y\")])]",
        r#"todo_write{"items":[{"a":true,"b":null},["x",-1500.0,16,1000],"y"]}"#,
    ),
    (
        "```tool_code\nwrite_file(path=\"a\", content=\"\"\"x\n```\n\"y\" # z\"\"\")  # write\nlist()\n```",
        r#"write_file{"path":"a","content":"x\n```\n\"y\" # z"} list{}"#,
    ),
    (
        r#"[bash(command="\u00e4\ud83d\ude00\x41\d\n" r'\n' 'b')]"#,
        r#"bash{"command":"ä😀A\\d\n\\nb"}"#,
    ),
    ("[bash(command=\"one\ntwo\")]", r#"bash{"command":"one\ntwo"}"#),
    (
        "<|python_tag|>list.call(); read_file.call(path='a')<|eom_id|>",
        r#"list{} read_file{"path":"a"}"#,
    ),
    (
        "<|python_tag|>[list(), read_file('a')] as you wish",
        r#"list{} read_file{"path":"a"} " as you wish""#,
    ),
    (
        "<|python_tag|>list.call(); read_file.call(path=name)",
        r#"list{} "; read_file.call(path=name)" !Unreadable"#,
    ),
    ("[read_file(path=\"a", r#""[read_file(path=\"a" !Incomplete"#),
    ("[read_file(path=\"a\"), list(", r#""[read_file(path=\"a\"), list(" !Incomplete"#),
    ("```tool_code\n", r#""```tool_code\n" !Incomplete"#),
    ("```tool_code\nlist()\nprint(default_api.read_file(path=\"a", "list{} !Incomplete"),
    ("<|python_tag|>read_file.call(path=", r#""<|python_tag|>read_file.call(path=" !Incomplete"#),
    (
        "```python\nread_file(path=\"a\", limit=",
        r#""```python\nread_file(path=\"a\", limit=" !Incomplete"#,
    ),
    (
        "```tool_code\nprint(default_api.fly(to=\"x\"))\n```",
        r#""```tool_code\nprint(default_api.fly(to=\"x\"))\n```" !UnknownTool("fly")"#,
    ),
    ("[list(), fly(to=\"x\")]", r#""[list(), fly(to=\"x\")]" !UnknownTool("fly")"#),
    ("```tool_code\nimport os\n```", r#""```tool_code\nimport os\n```" !Unreadable"#),
    (
        "```tool_code\nread_file(path=name)\n```",
        r#""```tool_code\nread_file(path=name)\n```" !Unreadable"#,
    ),
    (
        "```tool_code\nread_file(path=f\"{name}\")\n```",
        r#""```tool_code\nread_file(path=f\"{name}\")\n```" !Unreadable"#,
    ),
    (
        "```tool_code\nwrite_file(\"a\", \"b\")\n```",
        r#""```tool_code\nwrite_file(\"a\", \"b\")\n```" !Unreadable"#,
    ),
    // Names are corrected as those of native calls are.
    ("<tool_call>{\"name\": \"ReadFile\", \"arguments\": {}}</tool_call>", "ReadFile{}"),
    (
        "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>",
        r#"shell{"command":"ls"}"#,
    ),
    // Invented results.
    (
        "<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>\n<tool_result>\nall fine\n</tool_result>\nDone! <tool_call>{\"name\": \"bash\", \"arguments\": {}}</tool_call>",
        "list{}",
    ),
    // Half a call.
    ("<tool_call>", r#""<tool_call>" !Incomplete"#),
    ("I look. <tool_call>{\"name\": \"li", r#""I look. <tool_call>{\"name\": \"li" !Incomplete"#),
    (
        "<tool_call>{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"x",
        r#""<tool_call>{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"x" !Incomplete"#,
    ),
    (
        "{\"name\": \"read_file\", \"arguments\": {\"path\": \"a",
        r#""{\"name\": \"read_file\", \"arguments\": {\"path\": \"a" !Incomplete"#,
    ),
    (
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>",
        r#""<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>" !Incomplete"#,
    ),
    (
        "<function=bash><parameter=command>ls</parameter>",
        r#""<function=bash><parameter=command>ls</parameter>" !Incomplete"#,
    ),
    (
        "<function=bash><parameter=command>ls",
        r#""<function=bash><parameter=command>ls" !Incomplete"#,
    ),
    (
        "[TOOL_CALLS]read_file[ARGS]{\"path\": ",
        r#""[TOOL_CALLS]read_file[ARGS]{\"path\": " !Incomplete"#,
    ),
    (
        "<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"ba",
        r#"list{} "\n<tool_call>{\"name\": \"ba" !Incomplete"#,
    ),
    (
        "<|start|>assistant to=functions.list<|channel|>commentary json<|message|>{",
        r#""<|start|>assistant to=functions.list<|channel|>commentary json<|message|>{" !Incomplete"#,
    ),
    // Unknown tools.
    (
        "<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>",
        r#""<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>" !UnknownTool("fly")"#,
    ),
    (
        "{\"name\": \"fly\", \"arguments\": {\"to\": \"x\"}}",
        r#""{\"name\": \"fly\", \"arguments\": {\"to\": \"x\"}}" !UnknownTool("fly")"#,
    ),
    // Echoes of a schema.
    (
        "<tools>\n{\"name\": \"list\", \"description\": \"Lists.\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}\n</tools>",
        r#""<tools>\n{\"name\": \"list\", \"description\": \"Lists.\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}\n</tools>" !SchemaEcho("list")"#,
    ),
    (
        "{\"type\": \"function\", \"function\": {\"name\": \"list\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}}",
        r#""{\"type\": \"function\", \"function\": {\"name\": \"list\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}}" !SchemaEcho("list")"#,
    ),
];

#[test]
fn text_values_and_failures_are_read_in_the_same_way_in_either_format() {
    for (text, expected) in READINGS {
        for format in [ToolCallFormat::Native, ToolCallFormat::Text] {
            assert_eq!(outline(&read(text, format)), *expected, "{format:?}: {text}");
        }
    }
}

/// Replies without a call in either format.
const TEXTS: &[&str] = &[
    "",
    "Hello.",
    "Use the `<tool_call>` tag: `<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>`.",
    "The <tool_call> tag and <tools> are markers, [TOOL_CALLS] is Mistral's, <|python_tag|> Llama's.",
    "~~~\nFor example <function=bash><parameter=command>ls</parameter></function>\n~~~\nThat is how.",
    "a < b and c <tool d [0] {x}",
    "```rust\nfn main() {}\n```",
    "```json\n{\"name\": \"crow\", \"version\": \"1\"}\n```",
    "{\"name\": \"crow\", \"version\": \"1\"}",
    "[1, 2, {\"name\": \"x\"}]",
    "[{\"id\": 1, \"name\": \"list\"}]",
    "<think>I could write <tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call></think>\nNo.",
    "Maybe <tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>.</think>\nNo.",
    "<div>x</div> <tool_call></tool_call>",
    "```python\nprint(\"hello\")\n```",
    "```python\nread_file(path)\n```",
    "```python\nread_file(path=name)\n```",
    "```python\nread_file(\"a\")\n```",
    "```python\nlist()\n```",
    "```python\nfile = read_file(path=\"a\")\nprint(file)\n```",
    "```python\nopen_file(path=\"a\")\n```",
    "```python\nread_file(path=\"a\")\nopen_file(path=\"a\")\n```",
    "```python\nread_file(path=\"a\") + 1\n```",
    "```python\nfor x in y:\n    read_file(path=\"a\")\n```",
    "```js\nread_file(path=\"a\")\n```",
    "[link](https://a.test), [x] done\n[ ] open\n[1, 2]\n[f(x) for x in y]",
    "[open_file(path=\"a\")]",
    "[read_file(path=\"a\") for x in y]",
    "[read_file(path==\"a\")]",
    "Write `[read_file(path=\"a\")]` so: <|python_start|>, <|python_tag|>.",
    "~~~\n```tool_code\nlist()\n```\n~~~\n",
    "ends with [read_fi",
    "ends with <tool_ca",
    "ends with `",
];

#[test]
fn quoted_calls_data_and_reasoning_are_text() {
    for text in TEXTS {
        for format in [ToolCallFormat::Native, ToolCallFormat::Text] {
            let reading = read(text, format);
            assert_eq!(reading.visible_text(), *text, "{format:?}: {text}");
            assert!(reading.is_text() && reading.failure.is_none(), "{format:?}: {reading:?}");
        }
    }
}

/// Replies with the reading for a model with native calls, and that for a model without.
const BY_FORMAT: &[(&str, &str, &str)] = &[
    (
        "So:\n```xml\n<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>\n```\nThat is how.",
        r#""So:\n```xml\n<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>\n```\nThat is how.""#,
        r#""So:\n```xml\n<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>\n```\nThat is how." !AmidText"#,
    ),
    (
        "I read it:\n\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```\n",
        r#""I read it:\n\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```\n""#,
        r#""I read it:" list{}"#,
    ),
    (
        "I read it:\n{\"name\": \"list\", \"arguments\": {}}",
        r#""I read it:\n{\"name\": \"list\", \"arguments\": {}}""#,
        r#""I read it:" list{}"#,
    ),
    (
        "```json\n{\"name\": \"list\", \"arguments\": {}}\n```\n\n```json\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n```",
        r#"list{} bash{"command":"ls"}"#,
        r#"list{} bash{"command":"ls"}"#,
    ),
    (
        "So:\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```\nThat lists.",
        r#""So:\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```\nThat lists.""#,
        r#""So:\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```\nThat lists." !AmidText"#,
    ),
    (
        "```json\n{\"name\": \"list\", \"arguments\": {}}\n```\nThen:\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```",
        r#""```json\n{\"name\": \"list\", \"arguments\": {}}\n```\nThen:\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```""#,
        r#""```json\n{\"name\": \"list\", \"arguments\": {}}\n```\nThen:\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```" !AmidText"#,
    ),
    ("I look:\n[list()]", r#""I look:\n[list()]""#, r#""I look:" list{}"#),
    (
        "I look:\n```python\nread_file(path=\"a\")\n```",
        r#""I look:\n```python\nread_file(path=\"a\")\n```""#,
        r#""I look:" read_file{"path":"a"}"#,
    ),
    (
        "So:\n```tool_code\nlist()\n```\nThat lists.",
        r#""So:\n```tool_code\nlist()\n```\nThat lists.""#,
        r#""So:\n```tool_code\nlist()\n```\nThat lists." !AmidText"#,
    ),
    (
        "```tool_code\nlist()\n```\nThen:\n```tool_code\nlist()\n```",
        r#""```tool_code\nlist()\n```\nThen:\n```tool_code\nlist()\n```""#,
        r#""```tool_code\nlist()\n```\nThen:\n```tool_code\nlist()\n```" !AmidText"#,
    ),
    ("[list()]\nThat lists.", r#""[list()]\nThat lists.""#, r#""[list()]\nThat lists." !AmidText"#),
];

#[test]
fn a_call_without_marks_after_some_words_counts_only_without_native_calls() {
    for (text, native, without) in BY_FORMAT {
        assert_eq!(outline(&read(text, ToolCallFormat::Native)), *native, "{text}");
        assert_eq!(outline(&read(text, ToolCallFormat::Text)), *without, "{text}");
    }
}

#[test]
fn an_invented_result_is_discarded_with_a_note() {
    let reading = read(
        "<tool_call>{\"name\": \"list\"}</tool_call>\nSo:\n<tool_response>x</tool_response>",
        ToolCallFormat::Text,
    );
    assert_eq!(outline(&reading), r#"list{} "\nSo:\n""#);
    assert_eq!(reading.repairs.len(), 1, "{:?}", reading.repairs);
}

#[test]
fn a_tag_that_is_repeated_without_end_is_half_a_call() {
    for tag in [
        "<tool_call>",
        "<tool_call>{",
        "<function=bash>",
        "[TOOL_CALLS]",
        "```json\n{\"name\": ",
        "[list(",
        "```tool_code\n[list(",
        "<|python_tag|>list(a=[",
        "list(a={",
    ] {
        let text = tag.repeat(20_000);
        let reading = read(&text, ToolCallFormat::Text);
        assert!(reading.is_text(), "{tag}");
        assert_eq!(reading.visible_text(), text, "{tag}");
    }
}

#[test]
fn a_call_that_an_earlier_message_says_is_a_quotation() {
    let call = "<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>";
    let text = format!("The file says:\n{call}\n");
    let read = |earlier: &str| {
        let is_quotation = |piece: &str| earlier.contains(piece);
        let tools = tools();
        read_text_calls(&text, OfferedTools(&tools), ToolCallFormat::Native, &is_quotation)
    };
    assert_eq!(outline(&read(&format!("1: {call}"))), format!("{text:?} !Quotation"));
    assert_eq!(outline(&read("1: <tool_call>")), r#""The file says:" list{}"#);
}

/// Returns the text that is shown while the pieces arrive, before the reply is complete.
fn shown_early(pieces: &[&str], format: ToolCallFormat) -> (String, String) {
    let (mut text, mut scanner, mut found) = (String::new(), CallScanner::new(format), false);
    for piece in pieces {
        text.push_str(piece);
        found = found || scanner.reaches_place(&text);
    }
    let shown = text[..scanner.position()].trim_end().to_owned();
    (text, shown)
}

fn check_cuts(text: &str, cuts: &[usize], format: ToolCallFormat) -> Result<(), TestCaseError> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    ends.retain(|end| text.is_char_boundary(*end));
    ends.push(text.len());
    ends.sort_unstable();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let pieces: Vec<&str> = starts.zip(&ends).map(|(start, end)| &text[start..*end]).collect();
    let (joined, shown) = shown_early(&pieces, format);
    prop_assert_eq!(&joined, text);
    let visible = read(text, format).visible_text();
    prop_assert!(visible.starts_with(&shown), "{:?} was shown of {:?}", shown, visible);
    Ok(())
}

/// Pieces of replies, from which any kind of confusion can be built.
fn any_text() -> impl Strategy<Value = String> {
    let mut pieces: Vec<&str> = PLAIN.iter().map(|(_, text)| *text).collect();
    pieces.extend(READINGS.iter().map(|(text, _)| *text));
    pieces.extend(TEXTS);
    pieces.extend(BY_FORMAT.iter().map(|(text, _, _)| *text));
    let marks = [
        "<tool_call>",
        "</tool_call>",
        "<tools>",
        "<function=",
        "bash>",
        "<parameter=command>",
        "</parameter>",
        "</function>",
        "<invoke name=\"bash\">",
        "[TOOL_CALLS]",
        "<|python_tag|>",
        "{\"name\": \"list\", \"arguments\": {}}",
        "{\"name\": ",
        "\"",
        "}",
        "{",
        "[",
        "]",
        "```json\n",
        "```",
        "\n",
        "`",
        " ",
        "~~~",
        "<think>",
        "</think>",
        "<|channel|>analysis",
        "<|message|>",
        "<|end|>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁sep｜>",
        "<tool_result>",
        "ä日本",
        "list",
        "<arg_key>",
        "text ",
        "<",
        "|>",
        "[read_file(path=\"a\")]",
        "```tool_code\n",
        "```python\n",
        "```tool_output\n",
        "print(default_api.",
        "read_file(",
        "path=",
        "'a'",
        "\"\"\"",
        "(",
        ")",
        ", ",
        "<|python_start|>",
        "<|python_end|>",
        "```bash\n",
        "cat <<'EOF'\n",
        "EOF\n",
    ];
    pieces.extend(marks);
    let piece = prop::sample::select(pieces);
    // Whole pieces, and their beginnings.
    let cut = (piece, any::<prop::sample::Index>(), prop::bool::weighted(0.3)).prop_map(
        |(piece, index, is_cut)| {
            if !is_cut || piece.is_empty() {
                return piece.to_owned();
            }
            let end = index.index(piece.len());
            let end = (0..=end).rev().find(|end| piece.is_char_boundary(*end)).unwrap_or(0);
            piece[..end].to_owned()
        },
    );
    prop::collection::vec(cut, 0..6).prop_map(|pieces| pieces.concat())
}

#[test]
fn code_blocks_of_shell_and_python_are_run_where_the_model_calls_so() {
    for (text, expected) in [
        ("Let me look.\n\n```bash\nls -l\n```\n", r#""Let me look." bash{"command":"ls -l"}"#),
        (
            "```python\nprint(1)\n```\nIt prints:\n```\n1\n```\nDone.",
            r#"bash{"command":"python3 - <<'END_OF_SCRIPT'\nprint(1)\nEND_OF_SCRIPT"}"#,
        ),
        (
            "First:\n```sh\nmake\n```\nThen:\n```bash\nmake test\n```\nAll pass.",
            r#""First:" bash{"command":"make"} bash{"command":"make test"}"#,
        ),
        ("The file is:\n```json\n{\"a\": 1}\n```", r#""The file is:\n```json\n{\"a\": 1}\n```""#),
        ("<tool_call>\n{\"name\": \"list\", \"arguments\": {}}\n</tool_call>", "list{}"),
        (
            "Run `ls`, or\n\n    ```\n    ls\n    ```",
            "\"Run `ls`, or\\n\\n    ```\\n    ls\\n    ```\"",
        ),
    ] {
        assert_eq!(outline(&read(text, ToolCallFormat::CodeBlocks)), expected, "{text}");
    }
    // Elsewhere such a block is an example.
    for format in [ToolCallFormat::Native, ToolCallFormat::Text] {
        assert!(read("```bash\nls\n```", format).is_text());
    }
}

#[test]
fn a_code_block_that_the_end_of_the_reply_cuts_off_is_not_run() {
    let whole = read("```bash\nrm -rf build", ToolCallFormat::CodeBlocks);
    assert_eq!(outline(&whole), r#"bash{"command":"rm -rf build"}"#);
    let cut = whole.without_cut_call();
    assert_eq!((cut.parts.len(), cut.failure), (0, Some(super::reading::CallFailure::Incomplete)));
    let closed = read("```bash\nls\n```", ToolCallFormat::CodeBlocks);
    assert_eq!(closed.clone().without_cut_call(), closed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn cutting_a_reply_anywhere_shows_a_beginning_of_its_text(
        text in any_text(),
        cuts in prop::collection::vec(0usize..4000, 0..12),
    ) {
        for format in [ToolCallFormat::Native, ToolCallFormat::Text, ToolCallFormat::CodeBlocks] {
            check_cuts(&text, &cuts, format)?;
        }
    }

    #[test]
    fn only_offered_tools_are_called_and_a_reply_without_calls_is_unchanged(text in any_text()) {
        for format in [ToolCallFormat::Native, ToolCallFormat::Text, ToolCallFormat::CodeBlocks] {
            let reading = read(&text, format);
            for part in &reading.parts {
                if let ReadingPart::Call(call) = part {
                    prop_assert!(OfferedTools(&tools()).find(&call.name).is_some(), "{}", call.name);
                }
            }
            if reading.is_text() {
                prop_assert_eq!(reading.visible_text(), text.clone());
            }
            let none = read_text_calls(&text, OfferedTools(&[]), format, &|_| false);
            prop_assert!(!none.parts.iter().any(|part| matches!(part, ReadingPart::Call(_))));
        }
    }
}

#[test]
fn every_cut_between_two_characters_shows_a_beginning_of_the_text() {
    let texts = PLAIN.iter().map(|(_, text)| *text).chain(READINGS.iter().map(|(text, _)| *text));
    for text in texts.chain(TEXTS.iter().copied()) {
        for format in [ToolCallFormat::Native, ToolCallFormat::Text, ToolCallFormat::CodeBlocks] {
            let characters: Vec<usize> = text.char_indices().map(|(start, _)| start).collect();
            check_cuts(text, &characters, format).unwrap();
            for cut in characters {
                check_cuts(text, &[cut], format).unwrap();
            }
        }
    }
}
