//! Permission rules in words.

use crow_core::{
    permission::{PermissionRule, RuleDecision, RuleMatcher},
    tool::{Access, ToolCategory},
};

/// Says in a line what a rule says of what.
pub(crate) fn describe_rule(rule: &PermissionRule) -> String {
    format!("{} {}", rule_verb(rule.decision), rule_subject(&rule.matcher))
}

/// Names what a rule says.
pub(crate) fn rule_verb(decision: RuleDecision) -> &'static str {
    match decision {
        RuleDecision::Deny => "deny",
        RuleDecision::AskUser => "ask",
        RuleDecision::Allow => "allow",
    }
}

/// Names what a rule speaks of.
pub(crate) fn rule_subject(matcher: &RuleMatcher) -> String {
    match matcher {
        RuleMatcher::ToolName(name) => name.clone(),
        RuleMatcher::ToolCategory(category) => format!("tools that {}", purpose(*category)),
        RuleMatcher::CommandPrefix(words) => format!("`{} …`", words.join(" ")),
        RuleMatcher::Regex(pattern) => format!("/{}/", pattern.as_str()),
        RuleMatcher::Path { access, path } => {
            let access = match access {
                Access::Read => "reading",
                Access::Write => "writing",
            };
            format!("{access} {}", path.display())
        }
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
        ToolCategory::External => "are done by servers outside",
    }
}
