//! `permissions list` and `permissions explain`.

use std::{cmp::Reverse, fmt::Write as _};

use crow_app::{
    ProcessEnvironment,
    host::working_directory,
    product, rule_subject, rule_verb as verb,
    sandbox::{SandboxSettings, probe_containment, sandbox_settings},
    search_permissions,
};
use crow_console::ExitCode;
use crow_core::{
    capability::Containment,
    ids::{CallId, SessionId},
    network::{HostAddress, Network},
    permission::{
        CallFacts, DecisionCause, Explanation, MatchedRule, PermissionMode, PermissionPolicy,
        PermissionRule, RuleDecision, RuleScope,
    },
    tool::{
        Access, CallPlan, CommandLine, CommandMeaning, CommandWord, Effects, PathEffect,
        SimpleCommand, Subject, ToolCategory, is_sourced_pattern,
    },
    workspace::Workspace,
};
use crow_runtime::{LinkSearch, StoredRules, resolve_rules};
use crow_text::one_line;
use crow_tools::{plan_command_line, plan_web_fetch, planned_path};
use serde_json::{Value, json};

use super::trust::project_around;
use crate::{
    args::{ExplainArgs, OutputForm},
    error::CliError,
    output::output_line,
    terminal::write_out,
};

/// Lists the managed rules, those of the user and those of a trusted project.
pub(crate) fn list_rules(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let store = product::rule_store(environment)?;
    let StoredRules { managed, user } = store.load()?;
    let project = project_around(environment.current_dir()?, environment)?;
    let all = managed.rules().iter().chain(user.rules()).chain(project.additions.rules.rules());
    let mut rules: Vec<_> = all.collect();
    rules.sort_by_key(|rule| {
        (rule.decision, scope_order(&rule.scope), Reverse(rule.priority), rule.id.clone())
    });
    let mut text = String::new();
    for rule in &rules {
        match output {
            OutputForm::Text => describe(rule, &mut text),
            OutputForm::Json => {
                text.push_str(&String::from_utf8_lossy(&output_line(rule)?));
            }
        }
    }
    if rules.is_empty() && output == OutputForm::Text {
        let _ = writeln!(
            text,
            "No rules: --permissions decides alone. Rules are read from {}.",
            store.user_file().display()
        );
    }
    write_out(text.as_bytes())
}

fn scope_order(scope: &RuleScope) -> u8 {
    match scope {
        RuleScope::Managed => 0,
        RuleScope::User => 1,
        RuleScope::Session(_) => 2,
        RuleScope::Agent(_) => 3,
        RuleScope::Global => 4,
    }
}

fn describe(rule: &PermissionRule, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{:<6} {}  ({}, {}",
        verb(rule.decision),
        one_line(&rule_subject(&rule.matcher)),
        one_line(&rule.id),
        scope_name(&rule.scope)
    );
    if rule.priority != 0 {
        let _ = write!(text, ", priority {}", rule.priority);
    }
    text.push(')');
    if let Some(why) = &rule.description {
        let _ = write!(text, ": {}", one_line(why));
    }
    text.push('\n');
}

fn scope_name(scope: &RuleScope) -> String {
    match scope {
        RuleScope::Managed => "managed".to_owned(),
        RuleScope::Global => "global".to_owned(),
        RuleScope::User => "user".to_owned(),
        RuleScope::Agent(name) => format!("agent {}", one_line(name)),
        RuleScope::Session(id) => format!("session {id}"),
    }
}

/// Explains how a tool call or command line would be decided. Builds the policy as a session does, but runs nothing
/// except a test of the sandbox.
pub(crate) async fn explain(
    args: &ExplainArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    if args.call.trim().is_empty() {
        return Err(CliError::usage("there is no call to explain")
            .hint("crow-agent permissions explain \"cargo test\""));
    }
    let StoredRules { managed, user } = product::rule_store(environment)?.load()?;
    let mode = PermissionMode::from(args.permissions);
    let cwd = working_directory(args.cwd.as_deref(), environment)?;
    let project = project_around(&cwd, environment)?;
    // The decision depends on what the sandbox can do here, so it is tried out.
    let SandboxSettings { config: mut sandbox, links } = sandbox_settings(environment, &[])?;
    if let Some(trusted) = &project.trusted {
        sandbox.protected_files.extend_from_slice(&trusted.protected);
    }
    let (mut places, network) = (sandbox.sandbox_paths(), sandbox.network.clone());
    let links = LinkSearch::new(links, vec![cwd.clone()]);
    places.add(
        links.found().await.map_err(|error| CliError::failed(error.to_string()))?.sandbox_paths(),
    );
    let containment = probe_containment(sandbox, &cwd).await.0;
    let is_full = containment == Containment::Full;
    let search = search_permissions(environment)?;
    // The same policy as in a session.
    let mut policy = PermissionPolicy::new(mode)
        .with_rules(search.rules)
        .with_rules(managed)
        .with_rules(user)
        .with_rules(project.additions.rules)
        .with_places(places)
        .with_network(network.clone())
        .with_uncontained(!containment.has_any_layer())
        .with_read_sandbox(is_full);
    policy.set_read_only_sandbox(is_full);
    let workspace = Workspace::new(cwd);
    let policy = resolve_rules(policy, &workspace);
    let search_path = environment.var("PATH");
    let call =
        Call::read(&args.call, (&workspace, search_path.as_deref()), (&network, search.host))?;
    let facts = CallFacts {
        call_id: &CallId::new("explain"),
        session_id: &SessionId::new("explain"),
        agent: &args.agent,
        input: &Value::Null,
        tool: &call.tool,
        category: call.category,
        requires_permission: call.requires_permission,
        plan: &call.plan,
    };
    let explanation = policy.explain(facts, &workspace);
    match args.output {
        OutputForm::Text => {
            write_out(explanation_text(&call, &explanation, &containment).as_bytes())
        }
        OutputForm::Json => write_out(&output_line(&to_json(&call, &explanation, &containment))?),
    }
}

/// A hypothetical call.
struct Call {
    tool: String,
    category: ToolCategory,
    requires_permission: bool,
    plan: CallPlan,
}

impl Call {
    /// Parses a tool name with a path; anything else is a command line.
    fn read(
        text: &str,
        (workspace, search_path): (&Workspace, Option<&str>),
        (network, search): (&Network, Option<HostAddress>),
    ) -> Result<Self, CliError> {
        let (name, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        if let Some(plan) = web_plan(name, rest.trim(), network, search) {
            return Ok(Self {
                tool: name.to_owned(),
                category: ToolCategory::Network,
                requires_permission: true,
                plan: plan?,
            });
        }
        let tools = product::all_tools();
        let tool = tools.get(name).filter(|tool| tool.name() != "bash");
        Ok(match tool.filter(|_| is_path_argument(name, rest.trim())) {
            Some(tool) => Self {
                tool: name.to_owned(),
                category: tool.category(),
                requires_permission: tool.requires_permission(),
                plan: plan(name, tool.category(), rest.trim(), workspace)?,
            },
            // Tools of MCP servers are known only in a session, so any full name is accepted.
            None if is_sourced_pattern(name) && !name.ends_with('*') => Self {
                tool: name.to_owned(),
                category: ToolCategory::External,
                requires_permission: true,
                plan: plan(name, ToolCategory::External, "", workspace)?,
            },
            None => Self {
                tool: "bash".to_owned(),
                category: ToolCategory::Execute,
                requires_permission: true,
                plan: CallPlan {
                    title: text.trim().to_owned(),
                    effects: Effects::Unknown,
                    subject: Subject::Command(plan_command_line(
                        text,
                        workspace.cwd(),
                        workspace,
                        search_path,
                    )),
                },
            },
        })
    }
}

/// Returns the plan of a call of a web tool; `None` for other tools. `search` is the host of the search service.
fn web_plan(
    tool: &str,
    argument: &str,
    network: &Network,
    search: Option<HostAddress>,
) -> Option<Result<CallPlan, CliError>> {
    match tool {
        "web_fetch" => Some(plan_web_fetch(argument, network).map_err(|error| {
            CliError::usage(error)
                .hint("crow-agent permissions explain \"web_fetch https://docs.rs/\"")
        })),
        "web_search" => {
            let plan = CallPlan::of_category(format!("search {argument}"), ToolCategory::Network);
            Some(Ok(CallPlan { subject: search.map_or(Subject::Nothing, Subject::Host), ..plan }))
        }
        _ => None,
    }
}

/// Returns true if the text after a tool name is one path, and not the rest of a command line that begins with the
/// same word: `grep` is also a program.
fn is_path_argument(tool: &str, rest: &str) -> bool {
    let is_program = !tool.contains('_');
    let is_command = rest.contains([
        ';', '|', '&', '<', '>', '$', '`', '(', ')', '{', '}', '\n', '\r', '"', '\'', '\\',
    ]) || rest.starts_with('-');
    let is_several = rest.contains(char::is_whitespace);
    !(is_command || is_several && is_program)
}

/// Tools that read the files that they change.
const EDIT_TOOLS: [&str; 2] = ["apply_patch", "edit_file"];

/// Returns the plan of a call, computed as the tool itself does. Without a path, the path `FILE` in the working
/// directory is used.
fn plan(
    tool: &str,
    category: ToolCategory,
    path: &str,
    workspace: &Workspace,
) -> Result<CallPlan, CliError> {
    let access = match category {
        ToolCategory::Read => Access::Read,
        ToolCategory::Write => Access::Write,
        ToolCategory::Session | ToolCategory::Agent => return Ok(CallPlan::without_effects(tool)),
        ToolCategory::Execute | ToolCategory::Network | ToolCategory::External => {
            let (title, effects) = (tool.to_owned(), Effects::Unknown);
            return Ok(CallPlan { title, effects, subject: Subject::Nothing });
        }
    };
    let path = planned_path(if path.is_empty() { "FILE" } else { path }, workspace)
        .map_err(CliError::usage)?;
    let plan = CallPlan {
        title: format!("{tool} {}", workspace.display(&path)),
        effects: Effects::Paths(vec![PathEffect::new(path.clone(), access)]),
        subject: Subject::Path(path),
    };
    Ok(if EDIT_TOOLS.contains(&tool) { plan.with_read_of_written() } else { plan })
}

fn explanation_text(call: &Call, explanation: &Explanation, containment: &Containment) -> String {
    let verdict = match explanation.decision {
        RuleDecision::Allow => "may run",
        RuleDecision::AskUser => "is asked about",
        RuleDecision::Deny => "may not run",
    };
    let mut text = format!("{} {verdict}\n", one_line(&call.plan.title));
    let mut line = |label: &str, content: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {label:<10}{}", one_line(content));
    };
    match &explanation.cause {
        DecisionCause::Mode(mode) => line("by", &format!("the mode {mode}")),
        DecisionCause::Rules(rules) => {
            for rule in rules {
                line("by", &rule_name(rule));
            }
        }
    }
    if explanation.decision != RuleDecision::Allow {
        line("because", &explanation.reason);
    }
    for rule in &explanation.overruled {
        line("overruled", &rule_name(rule));
    }
    if let Subject::Command(command) = &call.plan.subject {
        match &command.meaning {
            CommandMeaning::Commands(commands) => {
                for command in commands.iter().filter(|_| commands.len() > 1) {
                    line("runs", &words(command));
                }
            }
            CommandMeaning::Unclear(reason) => line("unclear", reason),
        }
        if explanation.decision != RuleDecision::Deny {
            line("sandbox", sandbox_state(command, explanation, containment));
        }
    }
    text
}

/// Describes how the sandbox confines a command.
fn sandbox_state(
    line: &CommandLine,
    explanation: &Explanation,
    containment: &Containment,
) -> &'static str {
    let is_read_only = matches!(explanation.cause, DecisionCause::Mode(PermissionMode::ReadOnly));
    match containment {
        Containment::Full if line.only_reads() || is_read_only => {
            "whole, and read-only except for its temporary files"
        }
        Containment::Full => "whole",
        Containment::Partial { .. } => "partial; crow-agent doctor lists the gaps",
        Containment::None => "none",
    }
}

fn rule_name(rule: &MatchedRule) -> String {
    format!(
        "the rule {} ({}), which says {}",
        rule.id,
        scope_name(&rule.scope),
        verb(rule.decision)
    )
}

fn words(command: &SimpleCommand) -> String {
    let words = command.words.iter().map(|word| match word {
        CommandWord::Literal(word) | CommandWord::Computed(word) => word.as_str(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn to_json(call: &Call, explanation: &Explanation, containment: &Containment) -> Value {
    let rule =
        |rule: &MatchedRule| json!({"id": rule.id, "scope": rule.scope, "decision": rule.decision});
    let (mode, rules) = match &explanation.cause {
        DecisionCause::Mode(mode) => (Some(mode.as_str()), Vec::new()),
        DecisionCause::Rules(rules) => (None, rules.iter().map(rule).collect()),
    };
    json!({
        "tool": call.tool,
        "title": call.plan.title,
        "decision": explanation.decision,
        "reason": explanation.reason,
        "mode": mode,
        "rules": rules,
        "overruled": explanation.overruled.iter().map(rule).collect::<Vec<_>>(),
        "subject": call.plan.subject,
        "sandbox": containment,
    })
}
