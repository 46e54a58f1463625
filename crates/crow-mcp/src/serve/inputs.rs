//! The tools of the server: their definitions, and their arguments.

use std::{path::PathBuf, sync::Arc};

use crow_core::permission::PermissionMode;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub(super) const RUN: &str = "run_task";
pub(super) const FOLLOW: &str = "follow_task";
pub(super) const ANSWER: &str = "answer_question";
pub(super) const DIFF: &str = "task_diff";
pub(super) const CANCEL: &str = "cancel_task";
pub(super) const LIST: &str = "list_tasks";

/// Arguments of [`RUN`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunTaskInput {
    pub(super) prompt: String,
    pub(super) directory: Option<PathBuf>,
    pub(super) task: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) model: Option<String>,
    pub(super) permissions: Option<PermissionMode>,
    pub(super) wait: Option<bool>,
}

/// Arguments of the tools that take a task alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskIdInput {
    pub(super) task: String,
}

/// Arguments of [`ANSWER`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerInput {
    pub(super) task: String,
    pub(super) question: String,
    pub(super) answer: String,
    pub(super) feedback: Option<String>,
}

/// Parses the arguments of a call. The error is a text for the client's model.
pub(super) fn parse<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, String> {
    let value = Value::Object(arguments.unwrap_or_default());
    serde_json::from_value(value).map_err(|error| format!("invalid arguments: {error}"))
}

/// Returns the definitions of all tools.
pub(super) fn tools() -> Vec<Tool> {
    let task = json!({"type": "string", "description": "Id of the task, as run_task returned it."});
    let only_task = || json!({"task": task});
    let modes = PermissionMode::ALL.map(|mode| mode.to_string());
    let run = json!({
        "prompt": {"type": "string", "description": "What to do, with all that Crow needs to know."},
        "directory": {"type": "string", "description": "Absolute path of the directory to work in; by default that of the server."},
        "task": {"type": "string", "description": "Id of an earlier task, to continue it with this prompt."},
        "agent": {"type": "string", "description": "Agent to use; by default the configured one."},
        "model": {"type": "string", "description": "Model as provider/model; by default the configured one."},
        "permissions": {"type": "string", "enum": modes, "description": "What Crow may do without asking."},
        "wait": {"type": "boolean", "description": "False: return at once; follow_task then waits for the end."},
    });
    let answer = json!({
        "task": task,
        "question": {"type": "string", "description": "Id of the question."},
        "answer": {"type": "string", "description": "One of the question's choices, or a text if it takes one. Several choices: one per line."},
        "feedback": {"type": "string", "description": "With the answer deny: what to do instead."},
    });
    let read_only = || ToolAnnotations::new().read_only(true);
    let writes = || ToolAnnotations::new().read_only(false).open_world(true);
    vec![
        tool(
            RUN,
            "Lets the coding agent Crow work on a task: it reads and changes files and runs commands in a directory. Returns its answer, or a question that must be answered first.",
            &run,
            &["prompt"],
            writes(),
        ),
        tool(
            FOLLOW,
            "Waits until a task ends or asks a question.",
            &only_task(),
            &["task"],
            read_only(),
        ),
        tool(
            ANSWER,
            "Answers a question of a task. Follow the task afterwards.",
            &answer,
            &["task", "question", "answer"],
            writes(),
        ),
        tool(
            DIFF,
            "Shows the changes of a task to files as a diff.",
            &only_task(),
            &["task"],
            read_only(),
        ),
        tool(
            CANCEL,
            "Cancels the work on a task. Its changes stay, and it can be continued.",
            &only_task(),
            &["task"],
            writes(),
        ),
        tool(
            LIST,
            "Lists the tasks of this server with their states.",
            &json!({}),
            &[],
            read_only(),
        ),
    ]
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: &Value,
    required: &[&str],
    annotations: ToolAnnotations,
) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let Value::Object(schema) = schema else { unreachable!("it is an object") };
    Tool::new(name, description, Arc::new(schema)).with_annotations(annotations)
}
