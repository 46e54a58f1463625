//! Permission policy: decides whether a call may run.
//!
//! A [`PermissionPolicy`] decides from a call's plan, by [rules](PermissionRule) and a [mode](PermissionMode). Only its
//! decision, or the answer to a question, makes the [`Permit`] without which no tool runs.
//!
//! ```
//! use crow_core::{
//!     ids::{CallId, SessionId},
//!     permission::{CallFacts, Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleSet},
//!     tool::{
//!         CallPlan, CommandLine, CommandMeaning, Effects, SimpleCommand, Subject, ToolCategory, CommandWord,
//!     },
//!     workspace::Workspace,
//! };
//!
//! let rules = RuleSet::new([
//!     PermissionRule::allow_bash_prefix(["git"]),
//!     PermissionRule::deny_bash_prefix(["git", "push"]).with_description("releases are pushed by hand"),
//! ])?;
//! let policy = PermissionPolicy::new(PermissionMode::Ask).with_rules(rules);
//!
//! let decide = |line: &str| {
//!     // The shell tool parses the line. This one has a single command without quotes.
//!     let words = line.split(' ').map(|word| CommandWord::Literal(word.to_owned())).collect();
//!     let command = SimpleCommand { words, ..SimpleCommand::default() };
//!     let plan = CallPlan {
//!         title: line.to_owned(),
//!         effects: Effects::Unknown,
//!         subject: Subject::Command(CommandLine {
//!             text: line.to_owned(),
//!             folder: None,
//!             meaning: CommandMeaning::Commands(vec![command]),
//!         }),
//!     };
//!     let facts = CallFacts {
//!         call_id: &CallId::new("call"),
//!         session_id: &SessionId::new("session"),
//!         agent: "builder",
//!         input: &serde_json::json!({ "command": line }),
//!         tool: "bash",
//!         category: ToolCategory::Execute,
//!         requires_permission: true,
//!         plan: &plan,
//!     };
//!     policy.decide(facts, &Workspace::new("/project"))
//! };
//! assert!(matches!(decide("git log"), Decision::Allow(_)));
//! assert!(matches!(decide("git -C sub push"), Decision::Deny(_)));
//! let Decision::Ask(ask) = decide("cargo test --workspace") else { panic!("no rule speaks of it") };
//! assert_eq!(ask.offers[0].label, "commands that begin with `cargo test`");
//! # Ok::<(), crow_core::permission::RuleError>(())
//! ```

mod access_class;
mod call_part;
mod command;
mod decision;
mod evaluate;
mod offer;
mod paths;
mod policy;
mod prefix;
mod program_starters;
mod rule;
mod rule_set;
mod secret_file;
#[cfg(test)]
mod tests;

pub use decision::{
    Ask, CallFacts, Decision, Denial, DenialSource, Disclosure, PermissionAnswer, PermissionMode,
    Permit,
};
pub use evaluate::{DecisionCause, Explanation, MatchedRule};
pub use offer::{Grant, GrantOffer};
pub use paths::{SandboxPaths, WithheldReads};
pub use policy::PermissionPolicy;
pub use rule::{
    CustomMatcher, PermissionRule, RegexError, RuleDecision, RuleMatcher, RuleRegex, RuleScope,
};
pub use rule_set::{RuleError, RuleSet};
pub use secret_file::{is_secret_file, is_secret_file_in};
