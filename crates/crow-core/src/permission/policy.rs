//! The permission policy of a session: rules, mode and places of the sandbox.

use std::path::PathBuf;

use super::{
    Ask, CallFacts, Decision, Denial, DenialSource, Disclosure, Explanation, Grant, PermissionMode,
    PermissionRule, Permit, RuleDecision, RuleError, RuleMatcher, RuleScope, RuleSet, SandboxPaths,
    WithheldReads,
    evaluate::{DecisionContext, Evaluation},
    offer,
    paths::normalize_separators,
    rule_set,
};
use crate::{
    ids::SessionId,
    network::Network,
    tool_types::{Access, CallPlan, Effects, PathEffect, ToolCategory},
    workspace::Workspace,
};

/// The tool whose rules define what may be read.
const READ_TOOL: &str = "read_file";

/// Decides whether calls may run.
///
/// 1. A managed rule that denies, then a rule of any other scope that denies, then a mode that permits no changes:
///    the call may not run. Nothing below overrides that.
/// 2. For each part of the call, the strongest rule that allows or asks is chosen: by scope (user, session, agent,
///    global, managed), then the higher priority, then the narrower matcher; of two that are equal in all of that, the
///    one that asks. The order in which rules were added has no meaning.
/// 3. If one of them asks, the user is asked. If they allow every part, the call may run. Commands that change nothing
///    outside the shell (`cd`, `echo`) and reads in the workspace need no rule of their own beside a part that is
///    allowed.
/// 4. Else the [`PermissionMode`] decides. No mode allows a command that [no sandbox contains](Self::with_uncontained),
///    and none allows a tool to leave [the places of the sandbox](Self::with_places).
///
/// A rule that allows a tool, a category or everything, and one with a pattern or a function, allows neither places
/// outside the workspace nor protected directories such as `.git`, nor files whose names suggest keys: only a rule
/// with a path does, and that path must name the protected directory, the hidden place or the file. The same applies
/// to what a shell command is known to touch: the files that its words name and those that it is redirected to. Files
/// of the workspace that it names are allowed with the command; a file that its output goes to needs a rule of its
/// own, or a mode that allows edits. Other effects of a command are not known beforehand: allowing the shell tool as
/// a whole, or a command by its first words, allows what the sandbox lets it do. A line of commands that are known to
/// only read, and only in the workspace, counts as a read like that of any tool.
///
/// A shell line that could not be parsed is never allowed by a prefix or pattern. Nor is a command whose program is
/// only known when the line runs, that changes files which are only known then, or that sets a variable which could
/// make a program do something else. Nor is any command of a line that starts outside the workspace, nor one whose
/// program or script is named by a relative path if the line starts in another directory than the working directory
/// or may change it.
///
/// If a word that is only known when the line runs could be the one of a denial, or a text is too long to be
/// searched, the user is asked in every mode, even if other rules allow the call.
#[derive(Debug, Clone, Default)]
pub struct PermissionPolicy {
    mode: PermissionMode,
    containment: SandboxGuarantees,
    places: SandboxPaths,
    network: Network,
    rules: Vec<PolicyRule>,
}

/// The guarantees of the sandbox about commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SandboxGuarantees {
    /// Commands run without a sandbox: no mode may allow them.
    pub(super) is_missing: bool,
    /// Commands that only read run where nothing can be changed.
    pub(super) confines_reads: bool,
    /// All commands of a read-only agent run where nothing can be changed.
    pub(super) confines_all: bool,
}

/// A rule, and the session it was granted in.
#[derive(Debug, Clone)]
struct PolicyRule {
    rule: PermissionRule,
    /// The session in which it was granted. Without one the rule's scope alone applies.
    granted_in: Option<SessionId>,
}

impl PermissionPolicy {
    /// Makes a policy of a mode without rules.
    pub fn new(mode: PermissionMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Sets whether commands run without a sandbox. If so, no mode allows them, not even the one that allows
    /// everything else: only rules and answers of the user do.
    #[must_use]
    pub fn with_uncontained(mut self, uncontained: bool) -> Self {
        self.set_uncontained(uncontained);
        self
    }

    /// Sets whether commands run without a sandbox, see [`Self::with_uncontained`].
    pub fn set_uncontained(&mut self, uncontained: bool) {
        self.containment.is_missing = uncontained;
    }

    /// Sets whether lines that [only read](crate::tool::CommandLine::only_reads) run in a sandbox in which they
    /// cannot change anything, whatever they start. If so, lines for which settings of the project may name programs
    /// also count as reads: `git status`.
    #[must_use]
    pub fn with_read_sandbox(mut self, holds_reads: bool) -> Self {
        self.set_read_sandbox(holds_reads);
        self
    }

    /// Sets whether lines that only read run in a sandbox, see [`Self::with_read_sandbox`].
    pub fn set_read_sandbox(&mut self, holds_reads: bool) {
        self.containment.confines_reads = holds_reads;
    }

    /// Sets whether all commands run in a sandbox in which they cannot change anything. If so, the mode that only
    /// permits reads allows them: for agents that may only read.
    pub fn set_read_only_sandbox(&mut self, holds_all: bool) {
        self.containment.confines_all = holds_all;
    }

    /// Allows reads of a directory outside the workspace, such as the session's own output files.
    pub fn add_readable(&mut self, folder: impl Into<PathBuf>) {
        let readable = vec![folder.into()];
        self.add_places(SandboxPaths { readable, ..SandboxPaths::default() });
    }

    /// Adds the places of the sandbox, which limit file tools in every mode.
    #[must_use]
    pub fn with_places(mut self, places: SandboxPaths) -> Self {
        self.add_places(places);
        self
    }

    /// Adds places of the sandbox, see [`Self::with_places`].
    pub fn add_places(&mut self, places: SandboxPaths) {
        self.places.add(places);
    }

    /// Returns the places of the sandbox.
    pub fn sandbox_paths(&self) -> &SandboxPaths {
        &self.places
    }

    /// Sets the network that everything in the session may reach: requests to its hosts are not asked about.
    #[must_use]
    pub fn with_network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Adds the rules of a set. Their ids may equal those of other sets.
    #[must_use]
    pub fn with_rules(mut self, rules: RuleSet) -> Self {
        let entry = |rule| PolicyRule { rule, granted_in: None };
        self.rules.extend(rules.into_rules().into_iter().map(entry));
        self
    }

    /// Adds a rule. Fails if its id exists in its scope.
    pub fn add_rule(&mut self, rule: PermissionRule) -> Result<(), RuleError> {
        let rule = rule_set::validate_rule(rule)?;
        if self.rules().any(|known| known.id == rule.id && known.scope == rule.scope) {
            return Err(RuleError::DuplicateId { id: rule.id });
        }
        self.rules.push(PolicyRule { rule, granted_in: None });
        Ok(())
    }

    /// Adds rules: all of them, or none if one fails.
    pub fn add_rules(
        &mut self,
        rules: impl IntoIterator<Item = PermissionRule>,
    ) -> Result<(), RuleError> {
        let before = self.rules.len();
        for rule in rules {
            if let Err(error) = self.add_rule(rule) {
                self.rules.truncate(before);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Adds a rule for one session; replaces the rule's scope.
    pub fn add_session_rule(
        &mut self,
        session: &SessionId,
        rule: PermissionRule,
    ) -> Result<(), RuleError> {
        self.add_rule(rule.with_scope(RuleScope::Session(session.clone())))
    }

    /// Removes everything of one session: its rules and its grants.
    pub fn clear_session_rules(&mut self, session: &SessionId) {
        self.rules.retain(|entry| {
            entry.granted_in.as_ref() != Some(session)
                && entry.rule.scope != RuleScope::Session(session.clone())
        });
    }

    /// Adds what the user granted for the rest of a session, as rules of the user's scope that apply to this session
    /// only.
    pub fn grant(&mut self, session: &SessionId, grants: &[Grant]) {
        for rule in grants.iter().map(rule_of) {
            let is_known = self.rules.iter().any(|entry| {
                entry.granted_in.as_ref() == Some(session) && entry.rule.matcher == rule.matcher
            });
            if !is_known {
                self.rules.push(PolicyRule { rule, granted_in: Some(session.clone()) });
            }
        }
    }

    /// Returns the mode.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: PermissionMode) {
        self.mode = mode;
    }

    /// Returns all rules. Their order has no meaning.
    pub fn rules(&self) -> impl Iterator<Item = &PermissionRule> {
        self.rules.iter().map(|entry| &entry.rule)
    }

    /// Returns the rules granted for the rest of a session.
    pub fn granted(&self) -> impl Iterator<Item = &PermissionRule> {
        self.rules.iter().filter(|entry| entry.granted_in.is_some()).map(|entry| &entry.rule)
    }

    /// Decides about a call.
    pub fn decide(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Decision {
        let evaluation = self.evaluate(facts, workspace);
        let verdict = evaluation.verdict();
        let permit = || Permit::new(facts.call_id, facts.input);
        match verdict.decision {
            RuleDecision::Allow => Decision::Allow(permit()),
            RuleDecision::Deny => {
                Decision::Deny(Denial { source: DenialSource::Policy, reason: verdict.reason })
            }
            RuleDecision::AskUser => {
                // Offers that would not make the question unnecessary are dropped.
                let setting = self.decision_context(workspace);
                let mut offers = offer::offers(&facts, &evaluation.open_parts(), &setting);
                offers.retain(|offer| {
                    let granted: Vec<_> = offer.grants.iter().map(rule_of).collect();
                    evaluation.would_be_allowed_by(&granted)
                });
                Decision::Ask(Ask {
                    reason: verdict.reason,
                    offers,
                    least_mode: self.least_mode(facts, workspace),
                    disclosure: self.disclosure(facts, workspace),
                    is_by_mode_alone: evaluation.is_asked_by_mode_alone(),
                    permit: permit(),
                })
            }
        }
    }

    /// Explains the decision about a call.
    pub fn explain(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Explanation {
        Explanation::new(self.evaluate(facts, workspace).verdict(), self.mode)
    }

    /// Returns the files that rules withhold from being read by a call, whatever the decision about the call itself.
    pub fn withheld_reads(&self, facts: CallFacts<'_>) -> WithheldReads {
        let restricting = self
            .rules()
            .filter(|rule| rule.decision != RuleDecision::Allow && rule.applies_to(&facts));
        WithheldReads::new(restricting.map(|rule| &rule.matcher))
    }

    /// Evaluates the rules that apply to the call's session.
    fn evaluate<'a>(
        &'a self,
        facts: CallFacts<'a>,
        workspace: &'a Workspace,
    ) -> Evaluation<'a, 'a> {
        self.evaluate_in(self.decision_context(workspace), facts)
    }

    fn evaluate_in<'a>(
        &'a self,
        setting: DecisionContext<'a>,
        facts: CallFacts<'a>,
    ) -> Evaluation<'a, 'a> {
        let applicable = self.rules.iter().filter(|entry| {
            entry.granted_in.as_ref().is_none_or(|session| session == facts.session_id)
        });
        Evaluation::new(setting, applicable.map(|entry| &entry.rule), facts)
    }

    fn decision_context<'a>(&'a self, workspace: &'a Workspace) -> DecisionContext<'a> {
        let Self { mode, containment, places, network, .. } = self;
        DecisionContext {
            mode: *mode,
            containment: *containment,
            sandbox_paths: places,
            network,
            workspace,
        }
    }

    /// Returns the least permissive mode in which a call that is asked about would pass.
    fn least_mode(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Option<PermissionMode> {
        [PermissionMode::AcceptEdits, PermissionMode::FullAuto].into_iter().find(|mode| {
            let setting = DecisionContext { mode: *mode, ..self.decision_context(workspace) };
            self.evaluate_in(setting, facts).verdict().decision == RuleDecision::Allow
        })
    }

    /// Returns whether the files that a call is about could be read without a question. If so, the model may learn at
    /// once what a tool finds there, even while the call itself awaits an answer.
    pub fn disclosure(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Disclosure {
        let Effects::Paths(touched) = &facts.plan.effects else { return Disclosure::AfterApproval };
        let read = |effect: &PathEffect| PathEffect { access: Access::Read, ..effect.clone() };
        let plan = CallPlan {
            effects: Effects::Paths(touched.iter().map(read).collect()),
            ..facts.plan.clone()
        };
        let read_facts =
            CallFacts { plan: &plan, tool: READ_TOOL, category: ToolCategory::Read, ..facts };
        match self.evaluate(read_facts, workspace).verdict().decision {
            RuleDecision::Allow => Disclosure::Immediate,
            RuleDecision::AskUser | RuleDecision::Deny => Disclosure::AfterApproval,
        }
    }
}

/// Returns the rule for a grant.
fn rule_of(grant: &Grant) -> PermissionRule {
    let (label, matcher) = match grant {
        Grant::Tool(tool) => (format!("tool {tool}"), RuleMatcher::ToolName(tool.clone())),
        Grant::Command(words) => {
            (format!("command {}", words.join(" ")), RuleMatcher::CommandPrefix(words.clone()))
        }
        Grant::Path { access, path } => {
            let verb = match access {
                Access::Read => "read",
                Access::Write => "write",
            };
            let matcher = RuleMatcher::Path {
                access: *access,
                path: normalize_separators(path).into_owned(),
            };
            (format!("{verb} {}", path.display()), matcher)
        }
        Grant::Host(host) => (format!("host {host}"), RuleMatcher::Host(host.clone())),
    };
    PermissionRule::new(format!("granted {label}"), matcher, RuleDecision::Allow)
        .with_scope(RuleScope::User)
}
