//! Advice that names options and commands of the program.

/// Options and commands of the program that shows the runs, as far as it has them. Advice names only these: the default
/// has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramHints {
    /// The option that sets the permission mode, and what it permits.
    pub permissions: Option<PermissionsHint>,
    /// The command that explains by which rule a call is decided.
    pub explain_permissions: Option<&'static str>,
    /// The command that lists the models and the variables of their keys.
    pub list_models: Option<&'static str>,
    /// The option that chooses a model.
    pub model: Option<&'static str>,
    /// The option that limits the steps of a turn.
    pub max_steps: Option<&'static str>,
    /// The option that limits the rounds of a run.
    pub max_rounds: Option<&'static str>,
    /// The option that continues the session with the id that follows.
    pub resume: Option<&'static str>,
}

/// The option of a program that sets the permission mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionsHint {
    /// The option. A reason that names it needs no further advice.
    pub option: &'static str,
    /// What it permits with which value, beginning with the option.
    pub advice: &'static str,
}

impl ProgramHints {
    /// Returns the advice for a refusal with this reason; `None` if the reason contains one, or no mode permits the
    /// call.
    pub(crate) fn for_refusal(&self, reason: &str) -> Option<String> {
        if reason.contains("the rule `") {
            let explain = self.explain_permissions.map_or_else(String::new, |command| {
                format!("; `{command}` shows what decides a call")
            });
            return Some(format!("no mode overrules a rule{explain}"));
        }
        let permissions = self.permissions?;
        let says_enough =
            reason.contains(permissions.option) || reason.contains("no mode permits it");
        (!says_enough).then(|| permissions.advice.to_owned())
    }

    /// Returns ` with OPTION`, to be appended to an advice to choose another model, or nothing without the option.
    pub(crate) fn with_model_option(&self) -> String {
        self.model.map_or_else(String::new, |option| format!(" with {option}"))
    }
}

/// Options and commands of a program, for tests.
#[cfg(test)]
pub(crate) const SAMPLE_HINTS: ProgramHints = ProgramHints {
    permissions: Some(PermissionsHint {
        option: "--permissions",
        advice: "--permissions accept-edits permits edits in the workspace, full-auto what the sandbox allows; a rule other paths",
    }),
    explain_permissions: Some("crow-agent permissions explain"),
    list_models: Some("crow-agent models"),
    model: Some("--model"),
    max_steps: Some("--max-steps"),
    max_rounds: Some("--max-rounds"),
    resume: Some("--resume"),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_only_what_the_program_has() {
        let none = ProgramHints::default();
        assert_eq!(none.for_refusal("it changes files"), None);
        let by_rule = none.for_refusal("the rule `no-push` denies it");
        assert_eq!(by_rule.as_deref(), Some("no mode overrules a rule"));
        assert_eq!(none.with_model_option(), "");
        let hints = ProgramHints {
            permissions: Some(PermissionsHint {
                option: "--mode",
                advice: "--mode all permits it",
            }),
            model: Some("--model"),
            ..none
        };
        let refusal = hints.for_refusal("it changes files");
        assert_eq!(refusal.as_deref(), Some("--mode all permits it"));
        assert_eq!(hints.for_refusal("nobody to ask; see --mode"), None);
        assert_eq!(hints.for_refusal("no mode permits it"), None);
        assert_eq!(hints.with_model_option(), " with --model");
    }
}
