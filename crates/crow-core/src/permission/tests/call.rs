//! Calls to decide about.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    ids::{CallId, SessionId},
    permission::{
        CallFacts, Decision, Explanation, GrantOffer, PermissionMode, PermissionPolicy,
        PermissionRule, RuleDecision, RuleSet,
    },
    tool_types::{
        Access, CallPlan, CommandLine, CommandMeaning, CommandWord, Effects, PathEffect, Redirect,
        SimpleCommand, Subject, ToolCategory,
    },
    workspace::Workspace,
};

/// A call of the agent `builder` in the session `s`, in the workspace `/p`.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) category: ToolCategory,
    pub(super) plan: CallPlan,
    pub(super) agent: String,
    pub(super) session: SessionId,
    id: CallId,
    input: Value,
}

impl Call {
    pub(super) fn new(tool: &str, category: ToolCategory, effects: Effects) -> Self {
        Self {
            tool: tool.to_owned(),
            category,
            plan: CallPlan { title: "t".into(), effects, subject: Subject::Nothing },
            agent: "builder".to_owned(),
            session: SessionId::new("s"),
            id: CallId::new("c"),
            input: json!({"x": 1}),
        }
    }

    /// Commands are separated by ` ; `, words by blanks. `$X` is known only at run time, `>f` is a redirect, `A=` an
    /// assignment.
    pub(super) fn bash(line: &str) -> Self {
        let commands = line.split(" ; ").map(command).collect();
        Self::shell(line, CommandMeaning::Commands(commands))
    }

    pub(super) fn unclear(line: &str) -> Self {
        Self::shell(line, CommandMeaning::Unclear("it is odd".into()))
    }

    pub(super) fn shell(line: &str, meaning: CommandMeaning) -> Self {
        let mut call = Self::new("bash", ToolCategory::Execute, Effects::Unknown);
        call.plan.subject =
            Subject::Command(CommandLine { text: line.to_owned(), folder: None, meaning });
        call
    }

    pub(super) fn read(path: &str) -> Self {
        Self::new("read_file", ToolCategory::Read, paths(&[(path, Access::Read)]))
    }

    pub(super) fn write(path: &str) -> Self {
        Self::new("edit_file", ToolCategory::Write, paths(&[(path, Access::Write)]))
    }

    pub(super) fn of_agent(mut self, agent: &str) -> Self {
        agent.clone_into(&mut self.agent);
        self
    }

    pub(super) fn in_session(mut self, session: &str) -> Self {
        self.session = SessionId::new(session);
        self
    }

    fn facts(&self) -> CallFacts<'_> {
        CallFacts {
            call_id: &self.id,
            session_id: &self.session,
            agent: &self.agent,
            input: &self.input,
            tool: &self.tool,
            category: self.category,
            requires_permission: true,
            plan: &self.plan,
        }
    }

    pub(super) fn decide(&self, policy: &PermissionPolicy) -> Decision {
        policy.decide(self.facts(), &Workspace::new("/p"))
    }

    pub(super) fn explain(&self, policy: &PermissionPolicy) -> Explanation {
        policy.explain(self.facts(), &Workspace::new("/p"))
    }

    /// Returns the decision without its data. Checks that the explanation agrees, and that the permit is for this call.
    pub(super) fn outcome(&self, policy: &PermissionPolicy) -> RuleDecision {
        let decision = match self.decide(policy) {
            Decision::Allow(permit) => {
                assert!(permit.covers(&self.id, &self.input));
                RuleDecision::Allow
            }
            Decision::Ask(_) => RuleDecision::AskUser,
            Decision::Deny(_) => RuleDecision::Deny,
        };
        assert_eq!(self.explain(policy).decision, decision);
        decision
    }

    pub(super) fn offers(&self, policy: &PermissionPolicy) -> Vec<GrantOffer> {
        match self.decide(policy) {
            Decision::Ask(ask) => ask.offers,
            other @ (Decision::Allow(_) | Decision::Deny(_)) => panic!("not asked but {other:?}"),
        }
    }
}

fn command(text: &str) -> SimpleCommand {
    let mut command = SimpleCommand::default();
    let path = |file: &str| (!file.starts_with('$')).then(|| Workspace::new("/p").resolve(file));
    for word in text.split(' ') {
        let target = |file: &str| match file.strip_prefix('$') {
            Some(_) => CommandWord::Computed(file.to_owned()),
            None => CommandWord::Literal(file.to_owned()),
        };
        if let Some(file) = word.strip_prefix('>') {
            command.redirects.push(Redirect {
                access: Access::Write,
                target: target(file),
                path: path(file),
            });
        } else if let Some(file) = word.strip_prefix('<') {
            command.redirects.push(Redirect {
                access: Access::Read,
                target: target(file),
                path: path(file),
            });
        } else if let (Some((name, _)), true) = (word.split_once('='), command.words.is_empty()) {
            command.assignments.push(name.to_owned());
        } else {
            command.words.push(target(&word.replace('_', " ")));
        }
    }
    command
}

pub(super) fn paths(paths: &[(&str, Access)]) -> Effects {
    let effect = |(path, access): &(&str, Access)| PathEffect::new(PathBuf::from(path), *access);
    Effects::Paths(paths.iter().map(effect).collect())
}

/// A policy in the mode `ask`, with `/scratch` readable.
pub(super) fn policy(rules: impl IntoIterator<Item = PermissionRule>) -> PermissionPolicy {
    policy_in(PermissionMode::Ask, rules)
}

pub(super) fn policy_in(
    mode: PermissionMode,
    rules: impl IntoIterator<Item = PermissionRule>,
) -> PermissionPolicy {
    let rules = RuleSet::new(rules).expect("sound rules");
    let mut policy = PermissionPolicy::new(mode).with_rules(rules);
    policy.add_readable("/scratch");
    policy
}
