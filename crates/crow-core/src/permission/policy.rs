//! Rules, mode and workspace, as they hold for a session.

use std::path::PathBuf;

use super::{
    Ask, CallFacts, Decision, Denial, DenialSource, Disclosure, Explanation, Grant, PermissionMode,
    PermissionRule, Permit, RuleDecision, RuleError, RuleMatcher, RuleScope, RuleSet,
    SandboxPlaces, WithheldReads,
    evaluate::{DecisionContext, Evaluation},
    offer,
    permission_path::uniform,
    rule_set,
};
use crate::{
    ids::SessionId,
    tool_types::{Access, CallPlan, Effects, PathEffect, ToolCategory},
    workspace::Workspace,
};

/// The tool whose rules say what may be read.
const READING: &str = "read_file";

/// Decides about calls.
///
/// 1. A managed rule that denies, then a rule of any other scope that denies, then a mode that permits no changes:
///    the call may not run. Nothing below lifts that.
/// 2. For each part of the call the strongest rule that allows or asks: by scope (user, session, agent, global,
///    managed), then the higher priority, then the narrower matcher; of two that are equal in all of that, the one
///    that asks. The order in which rules were added has no meaning.
/// 3. If one of them asks, the user is asked. If they allow every part, the call may run. Commands that change nothing
///    outside the shell (`cd`, `echo`) and reads in the workspace need no rule of their own beside a part that is allowed.
/// 4. Else the [`PermissionMode`] decides. No mode lets a command pass that [no sandbox holds](Self::with_uncontained),
///    and none lets a tool pass that leaves [the places of the sandbox](Self::with_places).
///
/// A rule that allows a tool, a category or everything, and one with a pattern or a function, opens neither places
/// outside the workspace nor protected folders such as `.git`, nor files whose names say that they hold keys: only a rule
/// with a path does, and the protected folder, the hidden place or the file must be in that path. This holds for what a shell command is known to touch, too: the files that its words name and
/// those that it is redirected to. Those of the workspace that it names are allowed with it; one that its output goes to
/// needs a rule of its own, or a mode that lets edits pass. What it touches beside that is not known beforehand: allowing
/// the shell tool as a whole, or a command by its first words, allows what the sandbox lets it do. A line of commands
/// that are known to only read, and nothing outside the workspace, is a read like that of any tool.
///
/// A shell line that is not understood is never allowed by a prefix or pattern, nor is a command whose program is only
/// known when the line runs, that changes files which are only known then, or that sets a variable which could make a
/// program do something else. Nor is any command of a line that starts outside the workspace, nor one whose program or script is
/// named by a relative path where the line starts in another folder than the working directory or may change it.
///
/// Where a word that is only known when the line runs could be the one that a denial looks for, or a text is too long to
/// be looked into, the user is asked in every mode, whatever allows it.
#[derive(Debug, Clone, Default)]
pub struct PermissionPolicy {
    mode: PermissionMode,
    containment: SandboxGuarantees,
    places: SandboxPlaces,
    rules: Vec<PolicyRule>,
}

/// What bounds the commands that are run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SandboxGuarantees {
    /// Nothing holds them: no mode may let them pass.
    pub(super) is_missing: bool,
    /// What only reads runs where nothing can be changed.
    pub(super) holds_reads: bool,
    /// All commands of an agent that may only read run where nothing can be changed.
    pub(super) holds_all: bool,
}

/// A rule, and whom it is kept for.
#[derive(Debug, Clone)]
struct PolicyRule {
    rule: PermissionRule,
    /// The session in which it was granted. Without one its scope alone says for whom it holds.
    granted_in: Option<SessionId>,
}

impl PermissionPolicy {
    /// Makes a policy of a mode alone.
    pub fn new(mode: PermissionMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Says whether commands run without a sandbox. Then no mode lets them pass, also not the one in which everything
    /// else does: only rules do, and answers of the user.
    #[must_use]
    pub fn with_uncontained(mut self, uncontained: bool) -> Self {
        self.set_uncontained(uncontained);
        self
    }

    /// Says whether commands run without a sandbox, as [`Self::with_uncontained`] does.
    pub fn set_uncontained(&mut self, uncontained: bool) {
        self.containment.is_missing = uncontained;
    }

    /// Says whether lines that [only read](crate::tool::CommandLine::only_reads) run in a sandbox in which they cannot
    /// change anything, whatever they start. Then those pass as reads, too, in which settings of the project may name
    /// programs: `git status`.
    #[must_use]
    pub fn with_read_sandbox(mut self, holds_reads: bool) -> Self {
        self.set_read_sandbox(holds_reads);
        self
    }

    /// Says whether lines that only read run in a sandbox, as [`Self::with_read_sandbox`] does.
    pub fn set_read_sandbox(&mut self, holds_reads: bool) {
        self.containment.holds_reads = holds_reads;
    }

    /// Says whether all commands run in a sandbox in which they cannot change anything. Then the mode that only permits
    /// reads lets them pass: for agents that may only read.
    pub fn set_read_only_sandbox(&mut self, holds_all: bool) {
        self.containment.holds_all = holds_all;
    }

    /// Lets reads of a folder outside the workspace pass: the session's own output files.
    #[must_use]
    pub fn with_readable(mut self, folder: impl Into<PathBuf>) -> Self {
        self.add_readable(folder);
        self
    }

    /// Lets reads of a folder outside the workspace pass.
    pub fn add_readable(&mut self, folder: impl Into<PathBuf>) {
        let readable = vec![folder.into()];
        self.add_places(SandboxPlaces { readable, ..SandboxPlaces::default() });
    }

    /// Adds the places of the sandbox, to which file tools keep in every mode.
    #[must_use]
    pub fn with_places(mut self, places: SandboxPlaces) -> Self {
        self.add_places(places);
        self
    }

    /// Adds places of the sandbox, as [`Self::with_places`] does.
    pub fn add_places(&mut self, places: SandboxPlaces) {
        self.places.add(places);
    }

    /// Returns the places of the sandbox.
    pub fn places(&self) -> &SandboxPlaces {
        &self.places
    }

    /// Adds the rules of a set. Ids need not differ from those of other sets.
    #[must_use]
    pub fn with_rules(mut self, rules: RuleSet) -> Self {
        let held = |rule| PolicyRule { rule, granted_in: None };
        self.rules.extend(rules.into_rules().into_iter().map(held));
        self
    }

    /// Adds a rule. Its id must be a new one in its scope.
    pub fn add_rule(&mut self, rule: PermissionRule) -> Result<(), RuleError> {
        let rule = rule_set::sound(rule)?;
        if self.rules().any(|known| known.id == rule.id && known.scope == rule.scope) {
            return Err(RuleError::DuplicateId { id: rule.id });
        }
        self.rules.push(PolicyRule { rule, granted_in: None });
        Ok(())
    }

    /// Adds rules: all of them, or none if one cannot be added.
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

    /// Adds a rule for one session, whatever scope it had.
    pub fn add_session_rule(
        &mut self,
        session: &SessionId,
        rule: PermissionRule,
    ) -> Result<(), RuleError> {
        self.add_rule(rule.with_scope(RuleScope::Session(session.clone())))
    }

    /// Takes away what holds for one session alone: its rules, and what was granted in it.
    pub fn clear_session_rules(&mut self, session: &SessionId) {
        self.rules.retain(|held| {
            held.granted_in.as_ref() != Some(session)
                && held.rule.scope != RuleScope::Session(session.clone())
        });
    }

    /// Notes what the user granted for the rest of a session: rules of the user's scope that hold in it alone.
    pub fn grant(&mut self, session: &SessionId, grants: &[Grant]) {
        for rule in grants.iter().map(rule_of) {
            let is_known = self.rules.iter().any(|held| {
                held.granted_in.as_ref() == Some(session) && held.rule.matcher == rule.matcher
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
        self.rules.iter().map(|held| &held.rule)
    }

    /// Returns what was granted for the rest of a session.
    pub fn granted(&self) -> impl Iterator<Item = &PermissionRule> {
        self.rules.iter().filter(|held| held.granted_in.is_some()).map(|held| &held.rule)
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
                let setting = self.setting(workspace);
                let mut offers = offer::offers(&facts, &evaluation.open_parts(), &setting);
                offers.retain(|offer| {
                    let granted: Vec<_> = offer.grants.iter().map(rule_of).collect();
                    evaluation.would_be_allowed_by(&granted)
                });
                Decision::Ask(Ask {
                    reason: verdict.reason,
                    offers,
                    passes_in: self.least_mode(facts, workspace),
                    disclosure: self.disclosure(facts, workspace),
                    permit: permit(),
                })
            }
        }
    }

    /// Says how a call is decided upon, and why.
    pub fn explain(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Explanation {
        Explanation::new(self.evaluate(facts, workspace).verdict(), self.mode)
    }

    /// Returns the files that rules keep from being read by a call, whatever is decided upon the call itself.
    pub fn withheld_reads(&self, facts: CallFacts<'_>) -> WithheldReads {
        let restricting = self
            .rules()
            .filter(|rule| rule.decision != RuleDecision::Allow && rule.holds_for(&facts));
        WithheldReads::new(restricting.map(|rule| &rule.matcher))
    }

    /// Holds the rules that are kept for the call's session against it.
    fn evaluate<'a>(
        &'a self,
        facts: CallFacts<'a>,
        workspace: &'a Workspace,
    ) -> Evaluation<'a, 'a> {
        self.evaluate_in(self.setting(workspace), facts)
    }

    fn evaluate_in<'a>(
        &'a self,
        setting: DecisionContext<'a>,
        facts: CallFacts<'a>,
    ) -> Evaluation<'a, 'a> {
        let kept = self.rules.iter().filter(|held| {
            held.granted_in.as_ref().is_none_or(|session| session == facts.session_id)
        });
        Evaluation::new(setting, kept.map(|held| &held.rule), facts)
    }

    fn setting<'a>(&'a self, workspace: &'a Workspace) -> DecisionContext<'a> {
        let Self { mode, containment, places, .. } = self;
        DecisionContext { mode: *mode, containment: *containment, places, workspace }
    }

    /// Returns the mode in which a call that is asked about would pass, the one that permits less first.
    fn least_mode(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Option<PermissionMode> {
        [PermissionMode::AcceptEdits, PermissionMode::FullAuto].into_iter().find(|mode| {
            let setting = DecisionContext { mode: *mode, ..self.setting(workspace) };
            self.evaluate_in(setting, facts).verdict().decision == RuleDecision::Allow
        })
    }

    /// Returns whether the files that a call is about could be read without a question. What a tool finds there may then be
    /// told to the model, also while the call itself is still to be asked about.
    fn disclosure(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Disclosure {
        let Effects::Paths(touched) = &facts.plan.effects else { return Disclosure::AfterYes };
        let read = |effect: &PathEffect| PathEffect { access: Access::Read, ..effect.clone() };
        let plan = CallPlan {
            effects: Effects::Paths(touched.iter().map(read).collect()),
            ..facts.plan.clone()
        };
        let reading =
            CallFacts { plan: &plan, tool: READING, category: ToolCategory::Read, ..facts };
        match self.evaluate(reading, workspace).verdict().decision {
            RuleDecision::Allow => Disclosure::AtOnce,
            RuleDecision::AskUser | RuleDecision::Deny => Disclosure::AfterYes,
        }
    }
}

/// The rule that a grant stands for.
fn rule_of(grant: &Grant) -> PermissionRule {
    let (what, matcher) = match grant {
        Grant::Tool(tool) => (format!("tool {tool}"), RuleMatcher::ToolName(tool.clone())),
        Grant::Command(words) => {
            (format!("command {}", words.join(" ")), RuleMatcher::CommandPrefix(words.clone()))
        }
        Grant::Path { access, path } => {
            let verb = match access {
                Access::Read => "read",
                Access::Write => "write",
            };
            let matcher = RuleMatcher::Path { access: *access, path: uniform(path).into_owned() };
            (format!("{verb} {}", path.display()), matcher)
        }
    };
    PermissionRule::new(format!("granted {what}"), matcher, RuleDecision::Allow)
        .with_scope(RuleScope::User)
}
