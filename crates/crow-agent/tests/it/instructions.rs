//! Instructions in files of the user and of the project.

use std::{fs, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use crow_agent::{
    AcpAgent, AcpAgentParts, AgentConfig, BaseAgent, Coagent, EndTools, InstructionSources,
};
use crow_core::{
    control::{Consensus, ControlFlow},
    event::{AgentEvent, Envelope, InstructionAuthor, InstructionFile},
    file_views::{ContentHash, FileView, FileViews},
    message::{Block, Message},
    tool::{
        CallPlan, Tool, ToolCategory, ToolContext, ToolError, ToolRegistry, ToolResult,
        TypedToolAdapter,
    },
    turn::RunLimits,
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, SeenRequest, call, reply, text},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A tool that reads a file as `read_file` does, or writes `content` to it.
struct Open;

#[async_trait]
impl Tool for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    fn description(&self) -> &'static str {
        "Reads or writes a file."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}})
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::Session
    }

    fn check(&self, _input: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn plan(&self, _input: &Value, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects("open"))
    }

    async fn execute(&self, input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let path = ctx.workspace.resolve(input["path"].as_str().unwrap());
        if let Some(content) = input["content"].as_str() {
            fs::write(&path, content).unwrap();
        }
        let content = fs::read(&path).unwrap();
        let view = FileView {
            path,
            hash: ContentHash::of_content(&content),
            lines: None,
            call_id: ctx.call_id.clone(),
        };
        let mut result = ToolResult::success(String::from_utf8_lossy(&content).into_owned());
        result.metadata.extra = json!({ FileViews::EXTRA_KEY: view });
        result
    }
}

struct Scene {
    harness: AgentHarness,
    user: TempDir,
}

fn open(id: &str, path: &str) -> Play {
    reply([call(id, "open", json!({ "path": path }))])
}

fn done() -> Play {
    reply([text("done")])
}

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(crow_agent::TaskComplete::default()));
    tools.register(Open);
    tools
}

impl Scene {
    fn new(plays: impl IntoIterator<Item = Play>) -> Self {
        Self::composed(ScriptedModel::new(plays), AcpAgent::solo)
    }

    fn composed(model: ScriptedModel, compose: impl FnOnce(BaseAgent) -> AcpAgent) -> Self {
        let user = tempfile::tempdir().unwrap();
        let options =
            HarnessOptions { config: config(&user), tools: tools(), ..HarnessOptions::default() };
        let harness = AgentHarness::start_composed(model, options, compose);
        fs::create_dir(harness.cwd().join(".git")).unwrap();
        Self { harness, user }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.harness.cwd().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn request(&self, number: usize) -> SeenRequest {
        self.harness.model.requests()[number].clone()
    }
}

fn config(user: &TempDir) -> AgentConfig {
    let user_folder = Some(user.path().to_owned());
    AgentConfig { instructions: Some(InstructionSources { user_folder }), ..AgentConfig::default() }
}

/// Returns the texts of the messages to the model that are neither replies nor results.
fn texts(request: &SeenRequest) -> Vec<String> {
    let texts = request.messages.iter().filter_map(|message| match message.as_ref() {
        Message::User(user) => Some(Block::text_of(&user.content)),
        Message::Assistant(_) | Message::Results(_) => None,
    });
    texts.collect()
}

fn instructions(events: &[Arc<Envelope>]) -> Vec<(Vec<InstructionFile>, String)> {
    let given = events.iter().filter_map(|event| match &event.event {
        AgentEvent::Instructions { files, text } => Some((files.clone(), text.clone())),
        _ => None,
    });
    given.collect()
}

fn warnings(events: &[Arc<Envelope>]) -> Vec<String> {
    let notices = events.iter().filter_map(|event| match &event.event {
        AgentEvent::Notice { text, .. } => Some(text.clone()),
        _ => None,
    });
    notices.collect()
}

#[tokio::test]
async fn instructions_of_user_and_project_come_before_the_first_prompt() {
    let mut scene = Scene::new([done()]);
    fs::write(scene.user.path().join("AGENTS.md"), "be brief").unwrap();
    scene.write("AGENTS.md", "use tabs");
    let events = scene.harness.run("hello").await;
    let texts = texts(&scene.request(0));
    assert_eq!(texts.len(), 2, "{texts:?}");
    let user = format!(
        "<user_instructions file=\"{}\" author=\"the user\">\nbe brief\n</user_instructions>\n",
        scene.user.path().canonicalize().unwrap().join("AGENTS.md").display()
    );
    let project = format!(
        "<project_instructions file=\"{}\" author=\"the repository, not the user\">\nuse tabs\n</project_instructions>\n",
        scene.path("AGENTS.md").display()
    );
    assert!(texts[0].ends_with(&format!("{user}{project}")), "{}", texts[0]);
    assert!(texts[1].contains("<environment>") && texts[1].ends_with("hello"), "{}", texts[1]);
    let files = &instructions(&events)[0].0;
    let authors: Vec<_> = files.iter().map(|file| file.author).collect();
    assert_eq!(authors, [InstructionAuthor::User, InstructionAuthor::Repository]);
}

#[tokio::test]
async fn instructions_of_a_folder_come_once_a_file_of_it_was_read_and_change_nothing_before() {
    let mut scene = Scene::new([
        open("c1", "deep/inner/file"),
        open("c2", "deep/inner/file"),
        open("c3", "deep/other"),
        done(),
    ]);
    scene.write("AGENTS.md", "use tabs");
    scene.write("deep/CLAUDE.md", "deep rules");
    scene.write("deep/inner/AGENTS.md", "inner rules");
    scene.write("deep/inner/file", "x");
    scene.write("deep/other", "x");
    let events = scene.harness.run("hello").await;
    let given = instructions(&events);
    assert_eq!(given.len(), 2, "{given:?}");
    let paths: Vec<_> = given[1].0.iter().map(|file| file.path.clone()).collect();
    assert_eq!(paths, [scene.path("deep/CLAUDE.md"), scene.path("deep/inner/AGENTS.md")]);
    let requests = scene.harness.model.requests();
    for pair in requests.windows(2) {
        assert!(pair[1].messages.starts_with(&pair[0].messages), "a sent message was changed");
    }
    assert!(!texts(&requests[0]).concat().contains("rules"));
    assert!(texts(&requests[1]).last().unwrap().contains("deep rules"));
}

#[tokio::test]
async fn a_changed_file_is_given_anew_and_a_removed_one_counts_no_longer() {
    let mut scene = Scene::new([done(), done(), done(), done()]);
    scene.write("AGENTS.md", "use tabs");
    scene.harness.run("one").await;
    scene.write("AGENTS.md", "use spaces");
    let changed = scene.harness.run("two").await;
    fs::remove_file(scene.path("AGENTS.md")).unwrap();
    let removed = scene.harness.run("three").await;
    let unchanged = scene.harness.run("four").await;
    let (changed, removed) = (instructions(&changed), instructions(&removed));
    assert!(
        changed[0].1.contains("AGENTS.md changed on disk") && changed[0].1.contains("use spaces")
    );
    assert!(removed[0].1.contains("count no longer") && removed[0].0[0].hash.is_none());
    assert_eq!(instructions(&unchanged), []);
    let last = scene.request(3);
    assert!(last.messages.starts_with(&scene.request(0).messages));
}

#[tokio::test]
async fn instructions_that_the_agent_itself_changes_are_given_anew_in_the_same_turn() {
    let args = json!({"path": "AGENTS.md", "content": "use spaces"});
    let mut scene = Scene::new([reply([call("c1", "open", args)]), done()]);
    scene.write("AGENTS.md", "use tabs");
    let events = scene.harness.run("change it").await;
    let given = instructions(&events);
    assert!(given[1].1.contains("use spaces"), "{given:?}");
}

#[tokio::test]
async fn what_a_compaction_leaves_out_is_given_again() {
    const WINDOW: u64 = 8_192;
    let output = "the quick brown fox jumps over the lazy dog; ".repeat(60);
    let mut plays = vec![open("n", "sub/file")];
    // Each call differs, so that they are no loop.
    plays.extend((0..70).map(|number| {
        reply([call(&format!("c{number}"), "open", json!({"path": "large", "n": number}))])
    }));
    plays.push(done());
    let model = ScriptedModel::new(plays)
        .with_window(Some(WINDOW))
        .with_summary(reply([text("## Goal\nlook around")]));
    let mut scene = Scene::composed(model, AcpAgent::solo);
    scene.write("AGENTS.md", "use tabs");
    scene.write("sub/AGENTS.md", "sub rules");
    scene.write("sub/file", "x");
    scene.write("large", &output);
    let events = scene.harness.run("look").await;
    let summaries = events.iter().filter(|event| {
        matches!(&event.event, AgentEvent::Compaction { summary, .. } if !summary.is_empty())
    });
    assert!(summaries.count() > 0, "nothing was summarized");
    for request in scene.harness.model.requests().iter().skip(2) {
        if !request.asks_for_summary() {
            let texts = texts(request).concat();
            assert_eq!(texts.matches("use tabs").count(), 1, "{texts}");
            assert_eq!(texts.matches("sub rules").count(), 1, "{texts}");
        }
    }
}

#[tokio::test]
async fn reviewers_get_the_instructions_too() {
    let plays = [
        reply([call("s", "submit_for_review", json!({"summary": "it is done"}))]),
        reply([call("t", "task_complete", json!({"summary": "seen"}))]),
    ];
    let user = tempfile::tempdir().unwrap();
    let reviewer_config = config(&user);
    let model = ScriptedModel::new(plays);
    let resolved = model.resolved();
    let mut scene = Scene::composed(model, |primary| {
        let reviewer = BaseAgent::new("reviewer", reviewer_config, resolved, tools());
        AcpAgent::new(AcpAgentParts {
            name: "PAIR".to_owned(),
            description: "works and is reviewed".to_owned(),
            primary,
            coagents: vec![Coagent::Base(Box::new(reviewer))],
            control_flow: ControlFlow::judge(),
            consensus: Consensus::All,
            handoff: None,
            limits: RunLimits { max_rounds: 2, ..RunLimits::default() },
            end_tools: EndTools::default(),
        })
        .unwrap()
    });
    scene.write("AGENTS.md", "use tabs");
    scene.harness.run("work").await;
    let requests = scene.harness.model.requests();
    let review = requests.last().unwrap();
    assert!(texts(review)[0].contains("use tabs"), "{:?}", texts(review));
    assert!(texts(review)[1].contains("<environment>"), "{:?}", texts(review));
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_once_and_never_waited_for() {
    let mut scene = Scene::new([done(), done()]);
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("AGENTS.md")).unwrap();
    fs::create_dir(scene.path("AGENTS.override.md")).unwrap();
    fs::write(scene.path("CLAUDE.md"), b"caf\xe9 rules").unwrap();
    let first = scene.harness.run("one").await;
    let texts = texts(&scene.request(0));
    assert!(texts[0].contains("caf\u{fffd} rules"), "{texts:?}");
    let warnings_of_first = warnings(&first);
    for (file, flaw) in [
        ("AGENTS.override.md", "no regular file"),
        ("AGENTS.md", "no regular file"),
        ("CLAUDE.md", "not UTF-8"),
    ] {
        let path = scene.path(file).display().to_string();
        let is_named =
            warnings_of_first.iter().any(|text| text.contains(&path) && text.contains(flaw));
        assert!(is_named, "{file}: {warnings_of_first:?}");
    }
    assert_eq!(warnings(&scene.harness.run("two").await), Vec::<String>::new());
}
