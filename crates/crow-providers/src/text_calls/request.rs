//! What a model without native calls is sent: the tools in the system prompt, and earlier calls and results as text.
//!
//! Calls become text of the model, results messages of the user. Messages of the user that follow each other are joined,
//! because many templates of local models refuse two of them in a row. A message is made once: its bytes stay the same,
//! so that the cache of the provider remains valid.

use std::sync::Arc;

use crow_core::{
    ids::MessageId,
    message::{
        AssistantMessage, Block, CallArguments, Message, ReplyBlock, ReplyContent, ResultMessage,
        UserMessage, escape_tags,
    },
    model::{ToolCallFormat, ToolDefinition},
};
use serde_json::json;

use super::read::{SHELL_TOOL, script_text};
use crate::codec::{EMPTY_OUTPUT, wire_name};

/// How to call, at the end of a reminder.
pub(super) fn how_to_call(format: ToolCallFormat) -> &'static str {
    match format {
        ToolCallFormat::Native => {
            "Call tools with the tool calls of your interface, not in text. If you did not mean to call a tool, answer without anything that looks like a call."
        }
        ToolCallFormat::CodeBlocks => {
            "To run commands, write one code block of bash or python and end it with its fence. If you did not mean to run anything, answer without such a block."
        }
        ToolCallFormat::Text => {
            "To call a tool, end your reply with exactly this form:\n<tool_call>\n{\"name\": \"TOOL\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}\n</tool_call>\nIf you did not mean to call a tool, answer without anything that looks like a call."
        }
    }
}

/// Returns the system prompt with a description of the tools at its end.
///
/// The form is that of the Hermes and Qwen templates, which most open models have seen in training. The same tools give
/// the same bytes.
pub(super) fn with_tools(system: &str, tools: &[ToolDefinition], format: ToolCallFormat) -> String {
    let mut prompt = system.trim_end().to_owned();
    let has_blocks =
        format == ToolCallFormat::CodeBlocks && tools.iter().any(|tool| tool.name == SHELL_TOOL);
    if has_blocks {
        push_paragraph(&mut prompt, BLOCK_INSTRUCTIONS);
    }
    let is_described = |tool: &&ToolDefinition| !has_blocks || tool.name != SHELL_TOOL;
    let tools: Vec<&ToolDefinition> = tools.iter().filter(is_described).collect();
    if tools.is_empty() {
        return prompt;
    }
    push_paragraph(&mut prompt, if has_blocks { OTHER_INSTRUCTIONS } else { INSTRUCTIONS });
    prompt.push_str("\n\n<tools>\n");
    for tool in tools {
        let line = json!({
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        });
        prompt.push_str(&line.to_string());
        prompt.push('\n');
    }
    prompt.push_str("</tools>");
    prompt
}

fn push_paragraph(prompt: &mut String, text: &str) {
    if !prompt.is_empty() {
        prompt.push_str("\n\n");
    }
    prompt.push_str(text);
}

/// Instructions for code blocks that are commands.
const BLOCK_INSTRUCTIONS: &str = "# Code blocks

You act by writing code blocks, which are run in the working folder:
- a ```python block runs as a Python 3 script, with the standard library and what is installed,
- a ```bash block runs shell commands.

For example, to write the number of lines of notes.txt to lines.txt:

```python
with open('notes.txt') as file:
    count = len(file.readlines())
with open('lines.txt', 'w') as file:
    file.write(f'{count}\\n')
print(open('lines.txt').read())
```

Write one block and stop. What it printed comes in the next message, as <tool_result>: never write that yourself. If it failed, write the mended block. A reply without a block ends your work.";

/// Instructions for the tools beside code blocks.
const OTHER_INSTRUCTIONS: &str = "There are other tools. To call one, end your reply with:
<tool_call>
{\"name\": \"TOOL\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}
</tool_call>";

const INSTRUCTIONS: &str = "# Tools

You act by calling tools. To call one, end your reply with the call in exactly this form:

<tool_call>
{\"name\": \"TOOL\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}
</tool_call>

- The content is one JSON object: escape quotes and line breaks inside of strings.
- For several calls, write several <tool_call> elements, one after the other.
- Stop after the calls. The results come in the next message, as <tool_result> elements. Never write a result yourself.
- A reply without a call ends your turn, so announce no work: do it.

These are the tools, with the JSON Schema of their arguments:";

/// Returns a call in the form that the system prompt asks for.
fn call_text(name: &str, arguments: &CallArguments, format: ToolCallFormat) -> String {
    if format == ToolCallFormat::CodeBlocks
        && let Some(block) = script_text(name, arguments)
    {
        return block;
    }
    let name = json!(name);
    let arguments = match arguments {
        CallArguments::Json(value) => value.to_string(),
        CallArguments::Malformed(text) => text.clone(),
    };
    format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
}

/// The messages that were sent so far.
///
/// Invariant: each one was made from a run of messages of the history, and its id contains their ids. A run that has
/// changed since gets a new id, and the provider encodes it anew.
#[derive(Debug)]
pub(super) struct TextHistory {
    format: ToolCallFormat,
    sent: Vec<Arc<Message>>,
}

impl TextHistory {
    /// Makes the history of a conversation in a form of calls in text.
    pub(super) fn new(format: ToolCallFormat) -> Self {
        Self { format, sent: Vec::new() }
    }

    /// Returns the messages as text.
    pub(super) fn messages(&mut self, history: &[Arc<Message>]) -> &[Arc<Message>] {
        let runs = history.chunk_by(|one, next| is_from_user(one) && is_from_user(next));
        let mut count = 0;
        for run in runs {
            let id = run_id(run);
            let is_known = self.sent.get(count).is_some_and(|sent| *sent.id() == id);
            if !is_known {
                self.sent.truncate(count);
                self.sent.push(text_message(run, id, self.format));
            }
            count += 1;
        }
        self.sent.truncate(count);
        &self.sent
    }
}

fn is_from_user(message: &Message) -> bool {
    match message {
        Message::User(_) | Message::Results(_) => true,
        Message::Assistant(_) => false,
    }
}

fn run_id(run: &[Arc<Message>]) -> MessageId {
    let ids: Vec<&str> = run.iter().map(|message| message.id().as_str()).collect();
    MessageId::new(ids.join("+"))
}

fn text_message(run: &[Arc<Message>], id: MessageId, format: ToolCallFormat) -> Arc<Message> {
    let [only] = run else {
        let content = run.iter().flat_map(|message| user_content(message)).collect();
        return Arc::new(Message::User(UserMessage { id, content }));
    };
    match only.as_ref() {
        Message::User(_) => Arc::clone(only),
        Message::Results(_) => {
            Arc::new(Message::User(UserMessage { id, content: user_content(only) }))
        }
        Message::Assistant(reply) if reply.calls().next().is_none() => Arc::clone(only),
        Message::Assistant(reply) => {
            let blocks = reply_blocks(&reply.blocks, format);
            Arc::new(Message::Assistant(AssistantMessage { blocks, ..reply.clone() }))
        }
    }
}

/// Returns the blocks of a reply with all text and all calls as one text, after the reasoning.
fn reply_blocks(blocks: &[ReplyBlock], format: ToolCallFormat) -> Vec<ReplyBlock> {
    let mut kept = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for block in blocks {
        match &block.content {
            ReplyContent::Text { text } => texts.push(text.trim().to_owned()),
            ReplyContent::Call(call) => {
                texts.push(call_text(&call.name, &call.arguments, format));
            }
            ReplyContent::Thinking { .. } | ReplyContent::Opaque => kept.push(block.clone()),
        }
    }
    texts.retain(|text| !text.is_empty());
    let text = texts.join("\n\n");
    kept.push(ReplyBlock::without_native_item(ReplyContent::Text { text }));
    kept
}

fn user_content(message: &Message) -> Vec<Block> {
    match message {
        Message::User(user) => user.content.clone(),
        Message::Results(results) => results.results.iter().flat_map(result_content).collect(),
        Message::Assistant(_) => {
            unreachable!("invariant: a run of several messages is from the user")
        }
    }
}

/// Returns a result between tags, which its content cannot close. Pictures stand after the text.
fn result_content(result: &ResultMessage) -> Vec<Block> {
    let text = escape_tags(&Block::text_of(&result.content), &["tool_result"]);
    let text = if text.trim().is_empty() { EMPTY_OUTPUT } else { &text };
    let name = wire_name(&result.tool, "_-.", 64);
    let status = if result.is_error { " status=\"error\"" } else { "" };
    let text = format!("<tool_result name=\"{name}\"{status}>\n{text}\n</tool_result>");
    let pictures = result.content.iter().filter(|block| matches!(block, Block::Image(_))).cloned();
    std::iter::once(Block::text(text)).chain(pictures).collect()
}
