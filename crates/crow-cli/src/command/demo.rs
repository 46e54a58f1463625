//! `demo`: a recorded model drives the real agent through a small real project.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use crow_app::{
    Audience, ProcessEnvironment, config::AgentLimits, host::ChoiceMemory, product, trust::Project,
};
use crow_console::ExitCode;
use crow_core::{
    capability::{OutputLimits, ProcessEnd, ProcessSpec, Processes as _},
    message::Block,
    model::{ModelRef, Models, ModelsError, Price, Provider as _, ResolvedModel},
    permission::{PermissionRule, RuleSet},
    tool::Progress,
};
use crow_providers::ReplayProvider;
use crow_runtime::{FileStore, ProcessRunner, StoredRules};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{DemoArgs, OutputForm, Permissions},
    error::CliError,
    run::{AgentRequest, ProductLaunch, RunDisplay, RunTask, audience_of, drive, launch},
    terminal::print_message,
};

const RECORDING: &str = include_str!("../../demo/recording.json");
const PROJECT: [(&str, &str); 4] = [
    ("README.md", include_str!("../../demo/project/README.md")),
    ("check.sh", include_str!("../../demo/project/check.sh")),
    ("orders.txt", include_str!("../../demo/project/orders.txt")),
    ("total.sh", include_str!("../../demo/project/total.sh")),
];
const PROMPT: &str = "`sh check.sh` fails in this project. Find out why and fix it.";
/// Time limit of the check.
const CHECK_TIME: Duration = Duration::from_secs(20);

/// Runs the demonstration and checks its result.
pub(crate) async fn demo(
    args: &DemoArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let folder = copy_project()?;
    let project = folder.join("project");
    print_message(
        "this is a demonstration: the model's words are a recording, everything else really happens",
    );
    print_message(&format!("the project is in {}; the task: {PROMPT}", project.display()));
    let models: Arc<dyn Models> = Arc::new(DemoModel::new(args)?);
    let request = AgentRequest {
        agent: None,
        model: None,
        reviewer_model: None,
        permissions: Some(Permissions::FullAuto),
        choice_memory: ChoiceMemory::Disabled,
        sandbox: crate::args::SandboxOptions::default(),
        limits: AgentLimits::default(),
        sampling: crow_agent::SamplingChoice::default(),
        resume: None,
        fork: false,
        additional_directories: Vec::new(),
        session_id: None,
        cwd: Some(project.clone()),
    };
    let store = Arc::new(FileStore::new(folder.join("sessions")));
    let fallback = Some(ModelRef { provider: "replay".to_owned(), model: "demo".to_owned() });
    let launched = launch(ProductLaunch {
        request: &request,
        cwd: project.canonicalize().unwrap_or_else(|_| project.clone()),
        project: Project::default(),
        audience: audience_of(args.output, environment),
        server_audience: Audience::Unattended,
        environment,
        store,
        models: Arc::clone(&models),
        user_skills: None,
        rules: rules()?,
        // A demonstration leaves nothing in the user's own folders.
        snapshots: product::snapshot_stores_in(folder.join("snapshots"), environment),
        providers: None,
        fallback,
    })
    .await?;
    // The recorded model drives a real session; the outcome is then checked independently of it.
    let exit = drive(
        launched,
        RunTask { prompt: vec![Block::text(PROMPT)].into(), form: None },
        RunDisplay::new(args.output, environment),
        models,
    )
    .await?;
    if exit != ExitCode::Done {
        return Ok(exit);
    }
    if !check_passes(&project, environment).await? {
        print_message(&format!("`sh check.sh` still fails; look at {}", project.display()));
        return Ok(ExitCode::Failed);
    }
    print_message(&format!(
        "`sh check.sh` passes now; look at what was changed in {}",
        project.display()
    ));
    if args.output == OutputForm::Text {
        print_message(
            "with a model of your own: export ANTHROPIC_API_KEY=… (or another), then crow-agent run \"your task\"",
        );
    }
    Ok(exit)
}

/// Returns rules that allow all commands: those of the recording are known, so they may also run without a sandbox.
fn rules() -> Result<StoredRules, CliError> {
    let rules = RuleSet::new([PermissionRule::allow_tool("bash")]);
    let user = rules.map_err(|error| CliError::failed(error.to_string()))?;
    Ok(StoredRules { user, ..StoredRules::default() })
}

/// Copies the project into a new temporary folder, which stays for the user to inspect.
fn copy_project() -> Result<PathBuf, CliError> {
    let unwritable = |error: std::io::Error| {
        CliError::failed(format!("the demonstration cannot be set up: {error}"))
            .hint("set TMPDIR to a writable folder")
    };
    let folder =
        tempfile::Builder::new().prefix("crow-demo-").tempdir().map_err(unwritable)?.keep();
    let project = folder.join("project");
    fs::create_dir(&project).map_err(unwritable)?;
    for (name, content) in PROJECT {
        fs::write(project.join(name), content).map_err(unwritable)?;
    }
    Ok(folder)
}

async fn check_passes(project: &Path, environment: &ProcessEnvironment) -> Result<bool, CliError> {
    let spec = ProcessSpec {
        argv: vec!["sh".to_owned(), "check.sh".to_owned()],
        cwd: project.to_path_buf(),
        env: BTreeMap::new(),
        timeout: CHECK_TIME,
        output: OutputLimits { head: 4096, tail: 0, spill: None, spill_cap: 0 },
        progress: Progress::default(),
        only_reads: false,
    };
    let runner = ProcessRunner::new(environment.child_environment(&[]));
    let outcome = runner
        .run(spec, CancellationToken::new())
        .await
        .map_err(|error| CliError::failed(error.to_string()))?;
    Ok(outcome.end == ProcessEnd::Exited(0))
}

/// Provider of the single model of the demonstration.
#[derive(Debug)]
struct DemoModel {
    provider: Arc<ReplayProvider>,
}

impl DemoModel {
    fn new(args: &DemoArgs) -> Result<Self, CliError> {
        let provider = ReplayProvider::from_json(RECORDING)
            .map_err(|error| CliError::failed(error.to_string()))?;
        let provider = if args.fast { provider.with_pace(Duration::ZERO) } else { provider };
        Ok(Self { provider: Arc::new(provider) })
    }
}

#[async_trait]
impl Models for DemoModel {
    async fn resolve(&self, _reference: &ModelRef) -> Result<ResolvedModel, ModelsError> {
        debug_assert_eq!(self.provider.name(), "replay");
        let info = self.provider.model();
        Ok(ResolvedModel { provider: Arc::clone(&self.provider) as Arc<_>, info, warning: None })
    }

    async fn price(&self, _reference: &ModelRef) -> Option<Price> {
        None
    }
}
