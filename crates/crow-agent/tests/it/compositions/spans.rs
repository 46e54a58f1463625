//! Tracing spans of a run.

use std::{
    cell::{Cell, RefCell},
    fmt::{self, Write as _},
    sync::{Arc, Mutex, Once},
};

use crow_core::{
    control::ControlFlow,
    event::{AgentEvent, Envelope},
};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::NoSubscriber,
};
use tracing_subscriber::{
    Layer, layer::Context, layer::SubscriberExt as _, registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use super::transcript::{Team, calls, ends};

thread_local! {
    /// The tree in which spans of this thread are recorded.
    static TREE: RefCell<Option<SpanTree>> = const { RefCell::new(None) };
}

/// Records each span in the tree of its thread. It subscribes for the whole process: whether a span is enabled is
/// cached for its place in the code, and other tests of the process reach these places without a subscriber.
struct ThreadSpans;

/// Each span as a line with its fields, below its parent.
#[derive(Clone, Default)]
struct SpanTree(Arc<Mutex<Vec<SpanLine>>>);

struct SpanLine {
    depth: usize,
    text: String,
}

/// Index of a span's line, stored in the span.
struct LineIndex(usize);

/// Appends fields to a text.
struct FieldText<'a>(&'a mut String);

impl Visit for FieldText<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ThreadSpans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(tree) = TREE.with_borrow(Clone::clone) else { return };
        let span = context.span(id).unwrap();
        let mut text = span.name().to_owned();
        attributes.record(&mut FieldText(&mut text));
        let mut lines = tree.0.lock().unwrap();
        span.extensions_mut().insert(LineIndex(lines.len()));
        lines.push(SpanLine { depth: span.scope().skip(1).count(), text });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(tree) = TREE.with_borrow(Clone::clone) else { return };
        let span = context.span(id).unwrap();
        if let Some(LineIndex(index)) = span.extensions().get::<LineIndex>() {
            values.record(&mut FieldText(&mut tree.0.lock().unwrap()[*index].text));
        }
    }
}

impl SpanTree {
    /// Records the spans of this thread from now on: all tasks of a test run on its thread.
    fn record() -> Self {
        static SUBSCRIBED: Once = Once::new();
        SUBSCRIBED.call_once(|| tracing_subscriber::registry().with(ThreadSpans).init());
        let tree = Self::default();
        TREE.set(Some(tree.clone()));
        tree
    }

    fn to_text(&self) -> String {
        let lines = self.0.lock().unwrap();
        let lines = lines.iter().map(|line| format!("{}{}", "  ".repeat(line.depth), line.text));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Replaces the ids in a text by names with which they can be told apart.
fn with_named_ids(mut text: String, events: &[Arc<Envelope>]) -> String {
    let mut replies = 0;
    for envelope in events {
        text = text.replace(envelope.session_id.as_str(), &format!("<{}>", envelope.agent));
        match &envelope.event {
            AgentEvent::RunStart { run_id, .. } => text = text.replace(run_id.as_str(), "<run>"),
            AgentEvent::Reply { reply_id, .. } => {
                replies += 1;
                text = text.replace(reply_id.as_str(), &format!("<reply {replies}>"));
            }
            _ => {}
        }
    }
    text
}

#[tokio::test]
async fn the_spans_of_a_run_form_a_tree_with_ids() {
    let tree = SpanTree::record();
    let primary = [calls("look"), ends("submit_for_review", "ready")];
    let reviewer = vec![ends("task_complete", "good")];
    let mut team = Team::start(ControlFlow::judge(), primary, vec![reviewer]);
    let events = team.harness.run("A prompt that no span contains.").await;
    insta::assert_snapshot!(with_named_ids(tree.to_text(), &events), @r#"
    create_session session=<builder>
    agent session=<builder>
      run run=<run>
        round round=1
          turn turn=1 agent="builder"
            step step=1
              request model=scripted/model reply=<reply 1> input_tokens=100 output_tokens=10
              call call="c" tool="look"
            step step=2
              request model=scripted/model reply=<reply 2> input_tokens=100 output_tokens=10
              call call="e" tool="submit_for_review"
          handoff
          review reviewer="reviewer" session=<reviewer>
            turn turn=1 agent="reviewer"
              step step=1
                request model=scripted/model reply=<reply 3> input_tokens=100 output_tokens=10
                call call="e" tool="task_complete"
    "#);
}

#[test]
fn without_a_subscriber_no_field_is_formatted() {
    struct Counted<'a>(&'a Cell<u32>);

    impl fmt::Display for Counted<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.set(self.0.get() + 1);
            f.write_str("counted")
        }
    }

    let _guard = tracing::subscriber::set_default(NoSubscriber::new());
    let count = Cell::new(0);
    let span = tracing::debug_span!("span", id = %Counted(&count), late = tracing::field::Empty);
    span.in_scope(|| tracing::debug!(id = %Counted(&count), "event"));
    span.record("late", tracing::field::display(Counted(&count)));
    assert_eq!((span.is_disabled(), count.get()), (true, 0));
}
