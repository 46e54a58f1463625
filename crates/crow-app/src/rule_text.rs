//! Descriptions of permission rules.

use crow_core::{
    permission::{PermissionRule, RuleDecision, RuleMatcher},
    tool::{Access, ToolCategory},
};

/// Describes a rule on one line: `allow tools that read`.
pub fn describe_rule(rule: &PermissionRule) -> String {
    format!("{} {}", rule_verb(rule.decision), rule_subject(&rule.matcher))
}

/// Returns the verb of a decision.
pub fn rule_verb(decision: RuleDecision) -> &'static str {
    match decision {
        RuleDecision::Deny => "deny",
        RuleDecision::AskUser => "ask",
        RuleDecision::Allow => "allow",
    }
}

/// Returns the calls that a rule matches.
pub fn rule_subject(matcher: &RuleMatcher) -> String {
    match matcher {
        RuleMatcher::ToolName(name) => name.clone(),
        RuleMatcher::ToolCategory(category) => format!("tools that {}", purpose(*category)),
        RuleMatcher::CommandPrefix(words) => format!("`{} …`", words.join(" ")),
        RuleMatcher::Regex(pattern) => format!("/{}/", pattern.as_str()),
        RuleMatcher::CommandRegex(pattern) => format!("commands like /{}/", pattern.as_str()),
        RuleMatcher::Path { access, path } => {
            let access = match access {
                Access::Read => "reading",
                Access::Write => "writing",
            };
            format!("{access} {}", path.display())
        }
        RuleMatcher::Host(host) => format!("requests to {host}"),
        RuleMatcher::Custom(custom) => format!("what {} says", custom.name()),
        RuleMatcher::All => "every call".to_owned(),
    }
}

fn purpose(category: ToolCategory) -> &'static str {
    match category {
        ToolCategory::Read => "read",
        ToolCategory::Write => "write files",
        ToolCategory::Execute => "run programs",
        ToolCategory::Network => "use the network",
        ToolCategory::Session => "keep the session's own state",
        ToolCategory::Agent => "start agents",
        ToolCategory::External => "run on external servers",
    }
}
