//! Tool calls as the client sees them, from their first event to their end.
//!
//! A call is keyed by the session of its agent and its id there. It is open from its first event until its end, or
//! until the view settles it; events of a settled call are not shown. Ids for the client are counted, because models
//! reuse ids.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use agent_client_protocol::v1::schema::{
    MessageId, SessionId as AcpSessionId, SessionUpdate, ToolCall, ToolCallContent, ToolCallId,
    ToolCallStatus, ToolCallUpdateFields,
};
use crow_core::{
    event::AgentEvent,
    ids::{CallId, SessionId},
    message::{CallArguments, ToolCall as ToolCallRequest},
    todo::TodoItem,
    tool::Patch,
};
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    child::ChildDisplay,
    content::{bounded_arguments, fenced_command, prose, title as title_line},
    contents::FileReader,
    diff::{DiffDisplay, KnownChange, display_of_change, display_of_preview},
    event::{EventContext, SessionUpdateOut, SessionView, single_key},
    open_call::{CallKeyInView, OpenCallView},
    tool_display::{
        Rank, ResultDisplay, ToolDisplay, display_of, locations_of, terminal_content,
        terminal_exit, terminal_info, terminal_output,
    },
};

/// Calls of all agents of a session.
#[derive(Debug)]
pub(super) struct CallViews {
    root: SessionId,
    cwd: PathBuf,
    contents: Arc<dyn FileReader>,
    /// True if the client shows terminals.
    has_terminals: bool,
    open: Vec<OpenCallView>,
    /// Number of calls shown for each key, because models may reuse an id.
    count: HashMap<CallKeyInView, u32>,
    /// Calls that were ended for the client before their own end.
    settled: HashSet<CallKeyInView>,
    /// Tool and arguments of the calls that models asked for and that have no result yet.
    requests: HashMap<CallKeyInView, (String, Value)>,
    /// Calls about which the user was asked: they are shown even if other calls of the tool are not.
    asked_about: HashSet<CallKeyInView>,
}

/// Tool, title and arguments of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallInput<'a> {
    pub(super) tool: &'a str,
    pub(super) title: &'a str,
    pub(super) arguments: &'a Value,
}

impl CallViews {
    pub(super) fn new(
        root: SessionId,
        cwd: PathBuf,
        contents: Arc<dyn FileReader>,
        has_terminals: bool,
    ) -> Self {
        Self {
            root,
            cwd,
            contents,
            has_terminals,
            open: Vec::new(),
            count: HashMap::new(),
            settled: HashSet::new(),
            requests: HashMap::new(),
            asked_about: HashSet::new(),
        }
    }

    pub(super) fn get_mut(&mut self, key: &CallKeyInView) -> Option<&mut OpenCallView> {
        self.open.iter_mut().find(|call| call.key == *key)
    }

    pub(super) fn is_open(&self, key: &CallKeyInView) -> bool {
        self.open.iter().any(|call| call.key == *key)
    }

    pub(super) fn open_keys(&self) -> impl Iterator<Item = &CallKeyInView> {
        self.open.iter().map(|call| &call.key)
    }

    pub(super) fn take(&mut self, key: &CallKeyInView) -> Option<OpenCallView> {
        let index = self.open.iter().position(|call| call.key == *key)?;
        Some(self.open.remove(index))
    }

    pub(super) fn push(&mut self, call: OpenCallView) {
        self.open.push(call);
    }

    /// Returns true if a call was already ended for the client.
    pub(super) fn is_settled(&self, key: &CallKeyInView) -> bool {
        self.settled.contains(key)
    }

    /// Adds a call that a model asks for. A settled call of the same id is another one.
    pub(super) fn add_request(&mut self, key: CallKeyInView, call: &ToolCallRequest) {
        let arguments = match &call.arguments {
            CallArguments::Json(arguments) => arguments.clone(),
            CallArguments::Malformed(text) => text.clone().into(),
        };
        self.settled.remove(&key);
        self.requests.insert(key, (call.name.clone(), arguments));
    }

    pub(super) fn is_asked_about(&self, key: &CallKeyInView) -> bool {
        self.asked_about.contains(key)
    }

    pub(super) fn ask_about(&mut self, key: CallKeyInView) {
        self.asked_about.insert(key);
    }

    /// Forgets the request for a call and the question about it.
    pub(super) fn forget(&mut self, key: &CallKeyInView) {
        self.requests.remove(key);
        self.asked_about.remove(key);
    }

    pub(super) fn open_id(&self, session: &SessionId, call: &CallId) -> Option<ToolCallId> {
        let is_it = |open: &&OpenCallView| open.key.0 == *session && open.key.1 == *call;
        self.open.iter().find(is_it).map(|call| call.id.clone())
    }

    pub(super) fn title(&self, session: &SessionId, call: &CallId) -> Option<String> {
        let is_it = |open: &&OpenCallView| open.key.0 == *session && open.key.1 == *call;
        self.open.iter().find(is_it).map(|call| call.title.clone())
    }

    /// Returns the id for the client under which a call was shown last.
    pub(super) fn last_id(&self, session: &SessionId, call: &CallId) -> Option<ToolCallId> {
        let key = (session.clone(), call.clone());
        let shown = self.open.iter().find(|open| open.key == key).map(|open| open.id.clone());
        shown.or_else(|| self.count.get(&key).map(|count| name(&key.1, *count)))
    }

    /// Returns an id for a call that is unique in the client's session, and the same in a replay.
    ///
    /// Calls of agents that the client does not know as sessions have the session in their id.
    pub(super) fn new_id(&mut self, key: &CallKeyInView, stage: &ChildDisplay) -> ToolCallId {
        let count = self.count.entry(key.clone()).or_insert(0);
        *count += 1;
        match stage {
            ChildDisplay::Session(_) => name(&key.1, *count),
            ChildDisplay::InCall(_) => {
                ToolCallId::new(format!("{}/{}", key.0, name(&key.1, *count)))
            }
        }
    }

    pub(super) fn add_text(&mut self, anchor: &ToolCallId, message: &MessageId, text: &str) {
        if let Some(call) = self.open.iter_mut().find(|call| call.id == *anchor) {
            call.add_text(message, text);
        }
    }

    pub(super) fn add_step(&mut self, anchor: &ToolCallId, step: String) {
        if let Some(call) = self.open.iter_mut().find(|call| call.id == *anchor) {
            call.add_step(step);
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.open.iter().any(OpenCallView::is_behind)
    }

    pub(super) fn catch_up(&mut self, out: &mut Vec<SessionUpdateOut>) {
        out.extend(self.open.iter_mut().filter_map(OpenCallView::catch_up));
    }

    /// Shows that a call waits for its turn.
    fn on_wait(&mut self, at: &mut EventContext<'_>, call_id: &CallId, reason: &str) {
        let key = (at.who.session.clone(), call_id.clone());
        if let Some(call) = self.get_mut(&key) {
            let wait = prose(&format!("Waiting: {reason}"));
            let content = call.set_waiting_content(|shown| [shown, vec![wait]].concat());
            let fields = ToolCallUpdateFields::new().content(content);
            at.out.push(call.update(fields, single_key("waitsFor", reason)));
        }
    }

    /// Adds output of a running call.
    fn on_progress(&mut self, at: &mut EventContext<'_>, call_id: &CallId, output: &str) {
        let key = (at.who.session.clone(), call_id.clone());
        if let Some(call) = self.get_mut(&key) {
            at.out.extend(call.add_output(output));
        }
    }

    /// Returns the display of a change that a call would make.
    pub(super) fn display_of_preview(&self, patch: &Patch, call: (&str, &Value)) -> DiffDisplay {
        display_of_preview(self.contents.as_ref(), &self.cwd, patch, call)
    }

    /// Returns the display of a change that was made.
    pub(super) fn display_of_change(&self, known: KnownChange<'_>) -> DiffDisplay {
        display_of_change(self.contents.as_ref(), &self.cwd, known)
    }

    /// Ends the open calls of one agent.
    pub(super) fn settle_session(&mut self, at: &mut EventContext<'_>, why: &str) {
        let session = &at.who.session;
        self.settle(|call| call.key.0 == *session, why, at.out);
    }

    /// Ends all open calls that `which` selects.
    fn settle(
        &mut self,
        which: impl Fn(&OpenCallView) -> bool,
        why: &str,
        out: &mut Vec<SessionUpdateOut>,
    ) {
        let (ended, open) = std::mem::take(&mut self.open).into_iter().partition(which);
        self.open = open;
        for call in Vec::<OpenCallView>::into_iter(ended) {
            settle(call, why, &mut self.settled, out);
        }
    }

    /// Shows a call that was asked for.
    fn on_pending(
        &mut self,
        at: &mut EventContext<'_>,
        call_id: &CallId,
        facts: CallInput<'_>,
        preview: Option<&Patch>,
    ) {
        let key = (at.who.session.clone(), call_id.clone());
        if !self.is_to_show(at, &key, facts.tool) || self.is_open(&key) {
            return;
        }
        self.open_call(at, key, facts, (ToolCallStatus::Pending, preview));
    }

    /// Shows that a call runs. It is also a step of the call in which its agent works.
    fn on_start(&mut self, at: &mut EventContext<'_>, call_id: &CallId, facts: CallInput<'_>) {
        let key = (at.who.session.clone(), call_id.clone());
        if let ChildDisplay::InCall(Some(anchor)) = at.display {
            self.add_step(anchor, title_line(facts.title));
        }
        if !self.is_to_show(at, &key, facts.tool) {
            return;
        }
        let Some(call) = self.get_mut(&key) else {
            return self.open_call(at, key, facts, (ToolCallStatus::InProgress, None));
        };
        at.out.extend(call.start());
    }

    /// Shows the call that a question is about, whichever tool it uses.
    fn on_question(
        &mut self,
        at: &mut EventContext<'_>,
        call_id: &CallId,
        (tool, title): (&str, &str),
    ) {
        let key = (at.who.session.clone(), call_id.clone());
        self.ask_about(key.clone());
        if self.is_to_show(at, &key, tool) && !self.is_open(&key) {
            let arguments = self.arguments(&key);
            let facts = CallInput { tool, title, arguments: &arguments };
            self.open_call(at, key, facts, (ToolCallStatus::Pending, None));
        }
    }

    /// Returns the arguments with which a model asked for a call; null if it did not.
    pub(super) fn arguments(&self, key: &CallKeyInView) -> Value {
        self.requests.get(key).map(|(_, arguments)| arguments.clone()).unwrap_or_default()
    }

    /// Returns true if a call is shown by itself, and was not settled.
    pub(super) fn is_to_show(
        &self,
        at: &EventContext<'_>,
        key: &CallKeyInView,
        tool: &str,
    ) -> bool {
        if self.is_settled(key) {
            return false;
        }
        if self.is_asked_about(key) {
            return true;
        }
        match (display_of(tool).rank, at.display) {
            (Rank::Hidden, _) | (Rank::Minor, ChildDisplay::InCall(_)) => false,
            (Rank::Minor, ChildDisplay::Session(_)) | (Rank::Major, _) => true,
        }
    }

    /// Shows a call for the first time.
    pub(super) fn open_call(
        &mut self,
        at: &mut EventContext<'_>,
        key: CallKeyInView,
        facts: CallInput<'_>,
        (status, preview): (ToolCallStatus, Option<&Patch>),
    ) {
        // 1) Title: a command is its own title, and its content if the title cannot show all of it.
        let showing = display_of(facts.tool);
        let command = facts.arguments.get("command").and_then(Value::as_str);
        let command = command.filter(|_| showing.body == ResultDisplay::Command);
        let label = title_line(command.unwrap_or(facts.title));
        let head = command.filter(|command| label != command.trim());
        let prefix = match at.display {
            ChildDisplay::Session(_) => String::new(),
            ChildDisplay::InCall(_) => at.who.prefix(),
        };
        let mut call = self.new_call(at, key, (format!("{prefix}{label}"), showing));
        call.status = status;
        call.head = head.map(fenced_command);
        // 2) Content and locations: the preview is more precise than the arguments.
        let mut locations = locations_of(facts.tool, facts.arguments, &self.cwd);
        call.content.extend(call.head.clone());
        if let Some(patch) = preview {
            let shown = {
                let call = (facts.tool, facts.arguments);
                self.display_of_preview(patch, call)
            };
            call.content.extend(shown.content);
            if !shown.locations.is_empty() {
                locations = shown.locations;
            }
        }
        // 3) Terminal.
        let mut meta = call.who.meta();
        if command.is_some() && self.runs_here(facts.arguments) {
            call.in_terminal = true;
            call.content.insert(0, terminal_content(&call.id));
            meta = terminal_info(&call.id, &self.cwd, meta);
        }
        let shown = ToolCall::new(call.id.clone(), call.title.clone())
            .name(facts.tool)
            .kind(showing.kind)
            .status(status)
            .content(call.content.clone())
            .locations(locations)
            .raw_input((!facts.arguments.is_null()).then(|| bounded_arguments(facts.arguments)))
            .meta(meta);
        at.send(call.session.clone(), SessionUpdate::ToolCall(shown));
        self.push(call);
    }

    /// Creates the view of a call with a new id.
    fn new_call(
        &mut self,
        at: &EventContext<'_>,
        key: CallKeyInView,
        (title, showing): (String, ToolDisplay),
    ) -> OpenCallView {
        let id = self.new_id(&key, at.display);
        let session = at.display.session(&self.root);
        OpenCallView::new(key, id, session, at.who.clone(), (title, showing))
    }

    /// Returns true if a command is shown in a terminal. A background command prints nothing into its call.
    fn runs_here(&self, arguments: &Value) -> bool {
        let mut names = ["run_in_background", "background", "is_background"].into_iter();
        let is_job = names.any(|name| arguments.get(name).and_then(Value::as_bool) == Some(true));
        self.has_terminals && !is_job
    }
}

fn name(call: &CallId, count: u32) -> ToolCallId {
    match count {
        0 | 1 => ToolCallId::new(call.as_str()),
        more => ToolCallId::new(format!("{call}#{more}")),
    }
}

fn settle(
    mut call: OpenCallView,
    why: &str,
    settled: &mut HashSet<CallKeyInView>,
    out: &mut Vec<SessionUpdateOut>,
) {
    out.extend(call.catch_up());
    let mut content = call.content.clone();
    content.push(prose(why));
    let mut fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
    let mut meta = call.who.meta_with(single_key("cancelled", true));
    if call.in_terminal {
        meta = terminal_output(&call.id, &format!("\n[{why}]\n"), meta);
        meta = terminal_exit(&call.id, None, meta);
    } else {
        fields = fields.content(content);
    }
    out.push(call.update_with(fields, meta));
    settled.insert(call.key);
}

impl SessionView {
    /// Returns true if [`SessionView::flush`] has updates to add.
    pub(crate) fn is_behind(&self) -> bool {
        self.calls.is_behind()
    }

    /// Adds updates about running output, each of which repeats it as a whole: output of commands, and text of agents
    /// below calls. The caller decides how often; the end of a call shows its output in any case.
    pub(crate) fn flush(&mut self, out: &mut Vec<SessionUpdateOut>) {
        self.calls.catch_up(out);
    }

    /// Ends every call that is open for the client, so that none is shown as running that is not. Later events of these
    /// calls are not shown.
    pub(crate) fn settle(&mut self, out: &mut Vec<SessionUpdateOut>, why: &str) {
        self.calls.settle(|_| true, why, out);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller names every event")]
    pub(super) fn show_call(&mut self, at: &mut EventContext<'_>, event: &AgentEvent) {
        match event {
            AgentEvent::CallPending { call_id, tool, title, arguments, preview } => {
                let facts = CallInput { tool, title, arguments };
                self.calls.on_pending(at, call_id, facts, preview.as_ref());
            }
            AgentEvent::CallStart { call_id, tool, title, arguments, .. } => {
                self.calls.on_start(at, call_id, CallInput { tool, title, arguments });
            }
            AgentEvent::CallWait { call_id, reason } => {
                self.calls.on_wait(at, call_id, reason);
            }
            AgentEvent::CallProgress { call_id, output } => {
                self.calls.on_progress(at, call_id, output);
            }
            AgentEvent::CallEnd { call_id, tool, result, denial, .. } => {
                // The plan's own event is not in the log.
                let todos = result.metadata.extra.get("todos");
                if let Some(Ok(items)) = todos.map(Vec::<TodoItem>::deserialize) {
                    self.plans.on_plan(at, &items);
                }
                self.calls.on_end(at, (call_id, tool), result, denial.as_ref());
            }
            AgentEvent::PermissionRequest { call_id, tool, title, .. } => {
                self.calls.on_question(at, call_id, (tool, title));
                self.children.set_asking(at);
            }
            AgentEvent::PermissionWithdrawn { .. } => self.children.set_running(at),
            AgentEvent::PermissionDecision { call_id, .. } => {
                self.calls.ask_about((at.who.session.clone(), call_id.clone()));
                self.children.set_running(at);
            }
            // `FilesChanged`: the end of the call shows its files.
            _ => {}
        }
    }
}

/// Shows a call that has already ended, in a session.
pub(super) fn done_call(
    session: AcpSessionId,
    at: &mut EventContext<'_>,
    id: &str,
    (title, name): (String, &str),
    (showing, status): (ToolDisplay, ToolCallStatus),
    content: Vec<ToolCallContent>,
) {
    let call = ToolCall::new(ToolCallId::new(id), title)
        .name(name)
        .kind(showing.kind)
        .status(status)
        .content(content)
        .meta(at.who.meta());
    at.send(session, SessionUpdate::ToolCall(call));
}
