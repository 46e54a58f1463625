//! The output items of a reply in progress, and their conversion to blocks.
//!
//! An item starts with an announcement, grows by deltas and ends with its final form, which becomes the native item of
//! its block. Servers omit any of these: a delta may start an item, the final form emits what no delta has emitted, and
//! the output in the last event completes the rest. An item without a final form is built from its deltas.

use std::borrow::Cow;

use crow_core::{
    message::{CallArguments, ReplyBlock, ReplyContent, ToolCall},
    model::ModelEvent,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::openai::reply::ReplyIds;

/// An item that may still receive events.
#[derive(Debug)]
struct OpenItem {
    kind: ItemKind,
    index: Option<u64>,
    /// The item as announced, later in its final form.
    item: Value,
    /// Text that was emitted so far; the arguments of a call.
    streamed: String,
    source: Option<ReasoningSource>,
    state: OutputItemState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputItemState {
    Open,
    Done,
}

/// Source of a delta. Reasoning can be sent twice, in the clear and as a summary: the first source is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReasoningSource {
    /// Text, refusal, arguments, reasoning in the clear.
    Content,
    /// The summary of reasoning.
    Summary,
}

impl OpenItem {
    fn new(kind: ItemKind, index: Option<u64>, item: Value) -> Self {
        Self {
            kind,
            index,
            item,
            streamed: String::new(),
            source: None,
            state: OutputItemState::Open,
        }
    }

    fn announce(&self, out: &mut Vec<ModelEvent>) {
        let name = text(&self.item, "name");
        if self.kind == ItemKind::Call && !name.is_empty() {
            out.push(ModelEvent::CallStarted { name: name.to_owned() });
        }
    }

    fn show(&mut self, more: &str, out: &mut Vec<ModelEvent>) {
        if more.is_empty() {
            return;
        }
        self.streamed.push_str(more);
        match self.kind {
            ItemKind::Message => out.push(ModelEvent::TextDelta(more.to_owned())),
            ItemKind::Reasoning => out.push(ModelEvent::ThinkingDelta(more.to_owned())),
            ItemKind::Call | ItemKind::Other => {}
        }
    }

    /// Stores the final form of the item and emits what no delta has emitted.
    fn complete(&mut self, item: Value, out: &mut Vec<ModelEvent>) {
        let was_named = !text(&self.item, "name").is_empty();
        self.item = item;
        self.state = OutputItemState::Done;
        if !was_named {
            self.announce(out);
        }
        let full = visible_text(&self.item, self.kind);
        if let Some(rest) = full.strip_prefix(&self.streamed) {
            self.show(rest, out);
        }
    }

    fn into_block(self, ids: &mut ReplyIds) -> Option<ReplyBlock> {
        if self.state == OutputItemState::Done {
            return Some(into_block(self.item, self.kind, ids));
        }
        // There is no final form: only the deltas are left.
        let content = match self.kind {
            ItemKind::Message => ReplyContent::Text { text: self.streamed },
            ItemKind::Reasoning => ReplyContent::Thinking { text: self.streamed },
            ItemKind::Call => {
                let mut call = call(&self.item, ids);
                if !self.streamed.is_empty() {
                    call.arguments = CallArguments::parse(&self.streamed);
                }
                ReplyContent::Call(call)
            }
            ItemKind::Other => return None,
        };
        Some(ReplyBlock::without_native_item(content))
    }
}

/// The items in the order of their start.
#[derive(Debug, Default)]
pub(super) struct Output {
    items: Vec<OpenItem>,
}

impl Output {
    /// Handles the start of an item.
    pub(super) fn on_added(&mut self, event: &Value, out: &mut Vec<ModelEvent>) {
        let Some(item) = event.get("item") else { return };
        let open = OpenItem::new(ItemKind::of_item(item), index(event), item.clone());
        open.announce(out);
        self.items.push(open);
    }

    /// Handles the final form of an item.
    pub(super) fn on_done(&mut self, event: &Value, out: &mut Vec<ModelEvent>) {
        let Some(item) = event.get("item") else { return };
        let (kind, id) = (ItemKind::of_item(item), text(item, "id"));
        self.open_item(kind, id, index(event)).complete(item.clone(), out);
    }

    /// Handles a delta of an item.
    pub(super) fn on_delta(
        &mut self,
        (kind, source): (ItemKind, ReasoningSource),
        piece: &ItemDelta<'_>,
        out: &mut Vec<ModelEvent>,
    ) {
        let item =
            self.open_item(kind, piece.item_id.as_deref().unwrap_or_default(), piece.output_index);
        if *item.source.get_or_insert(source) == source {
            item.show(&piece.text, out);
        }
    }

    /// Handles the start of another part of a summary: a blank line separates it from the one before.
    pub(super) fn on_summary_part(&mut self, event: &Value, out: &mut Vec<ModelEvent>) {
        let item = self.open_item(ItemKind::Reasoning, text(event, "item_id"), index(event));
        if item.source == Some(ReasoningSource::Summary) && !item.streamed.is_empty() {
            item.show("\n\n", out);
        }
    }

    /// Handles the whole output at the end, which fills in what was not sent before.
    pub(super) fn on_all(&mut self, output: &[Value], out: &mut Vec<ModelEvent>) {
        for (position, item) in output.iter().enumerate() {
            let kind = ItemKind::of_item(item);
            // An item that was sent completely before is not changed.
            match self.items.get_mut(position) {
                Some(open) if open.state == OutputItemState::Open && open.kind == kind => {
                    open.complete(item.clone(), out);
                }
                Some(_) => {}
                None => {
                    let mut open = OpenItem::new(kind, None, Value::Null);
                    open.complete(item.clone(), out);
                    self.items.push(open);
                }
            }
        }
    }

    pub(super) fn has_refusal(&self) -> bool {
        self.items.iter().any(|open| is_refusal(&open.item))
    }

    pub(super) fn into_blocks(self, ids: &mut ReplyIds) -> Vec<ReplyBlock> {
        self.items.into_iter().filter_map(|item| item.into_block(ids)).collect()
    }

    /// Returns the open item of an event: by its id, by its position, otherwise the last one of the kind, or a new one.
    ///
    /// llama.cpp omits the position, some gateways use another id in every event.
    fn open_item(&mut self, kind: ItemKind, id: &str, index: Option<u64>) -> &mut OpenItem {
        let is_open = |item: &OpenItem| item.kind == kind && item.state == OutputItemState::Open;
        let find = |test: &dyn Fn(&OpenItem) -> bool| {
            self.items.iter().rposition(|item| is_open(item) && test(item))
        };
        let found = find(&|item| !id.is_empty() && text(&item.item, "id") == id)
            .or_else(|| find(&|item| index.is_some() && item.index == index))
            .or_else(|| find(&|item| index.is_none() || item.index.is_none()));
        let position = found.unwrap_or_else(|| {
            self.items.push(OpenItem::new(kind, index, Value::Null));
            self.items.len() - 1
        });
        &mut self.items[position]
    }
}

fn index(event: &Value) -> Option<u64> {
    event.get("output_index").and_then(Value::as_u64)
}

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// Text or a refusal.
    Message,
    /// Reasoning.
    Reasoning,
    /// A call of one of our tools.
    Call,
    /// An item that was not requested: of a tool of the provider's own.
    Other,
}

impl ItemKind {
    fn of_item(item: &Value) -> Self {
        match text(item, "type") {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// Returns true if the item is reasoning.
pub(super) fn is_reasoning(item: &Value) -> bool {
    ItemKind::of_item(item) == ItemKind::Reasoning
}

/// Returns true if a native item is of use to a stateless server: reasoning is if it contains its content, encrypted
/// or, from open models, in the clear.
pub(super) fn is_resendable(item: &Value) -> bool {
    !is_reasoning(item)
        || !text(item, "encrypted_content").is_empty()
        || !list(item, "content").is_empty()
}

/// Returns true if a message item contains a refusal.
fn is_refusal(item: &Value) -> bool {
    list(item, "content").iter().any(|part| text(part, "type") == "refusal")
}

/// Returns the visible text of an item: the text of a message, or the readable part of reasoning.
pub(super) fn visible_text(item: &Value, kind: ItemKind) -> String {
    match kind {
        ItemKind::Message => list(item, "content")
            .iter()
            .map(|part| {
                if text(part, "type") == "refusal" {
                    text(part, "refusal")
                } else {
                    text(part, "text")
                }
            })
            .collect(),
        ItemKind::Reasoning => {
            let summary: Vec<&str> =
                list(item, "summary").iter().map(|part| text(part, "text")).collect();
            if summary.is_empty() {
                list(item, "content").iter().map(|part| text(part, "text")).collect()
            } else {
                summary.join("\n\n")
            }
        }
        ItemKind::Call | ItemKind::Other => String::new(),
    }
}

/// Converts a complete item to a block that contains it.
fn into_block(mut item: Value, kind: ItemKind, ids: &mut ReplyIds) -> ReplyBlock {
    let content = match kind {
        ItemKind::Message => ReplyContent::Text { text: visible_text(&item, kind) },
        ItemKind::Reasoning => {
            let text = visible_text(&item, kind);
            if text.is_empty() { ReplyContent::Opaque } else { ReplyContent::Thinking { text } }
        }
        ItemKind::Call => {
            let call = call(&item, ids);
            if let Some(fields) = item.as_object_mut() {
                fields.insert("call_id".to_owned(), json!(call.id));
            }
            ReplyContent::Call(call)
        }
        ItemKind::Other => ReplyContent::Opaque,
    };
    ReplyBlock::with_native(content, item)
}

/// Parses a call.
pub(super) fn call(item: &Value, ids: &mut ReplyIds) -> ToolCall {
    let arguments = match item.get("arguments") {
        Some(Value::String(text)) => CallArguments::parse(text),
        Some(Value::Null) | None => CallArguments::parse(""),
        Some(value) => CallArguments::Json(value.clone()),
    };
    ToolCall {
        id: ids.assign(Some(text(item, "call_id"))),
        name: text(item, "name").to_owned(),
        arguments,
    }
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Delta of an item: of its text, its reasoning or its arguments. The most frequent event, so it is parsed without
/// building a JSON tree.
#[derive(Debug, Deserialize)]
pub(super) struct ItemDelta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) item_id: Option<Cow<'a, str>>,
    pub(super) output_index: Option<u64>,
    #[serde(borrow, rename = "delta")]
    pub(super) text: Cow<'a, str>,
}

/// Returns the kind of item that a delta of this name extends, and its source; none for other events.
pub(super) fn delta_subject(event: &str) -> Option<(ItemKind, ReasoningSource)> {
    match event {
        "response.output_text.delta" | "response.refusal.delta" => {
            Some((ItemKind::Message, ReasoningSource::Content))
        }
        "response.reasoning_summary_text.delta" => {
            Some((ItemKind::Reasoning, ReasoningSource::Summary))
        }
        "response.reasoning_text.delta" => Some((ItemKind::Reasoning, ReasoningSource::Content)),
        "response.function_call_arguments.delta" => {
            Some((ItemKind::Call, ReasoningSource::Content))
        }
        _ => None,
    }
}
