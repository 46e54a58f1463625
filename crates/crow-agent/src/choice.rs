//! Choices of the user for an agent, which override its files.

use crow_core::{
    control::{ControlFlow, Preset},
    model::{ModelRef, Thinking},
    turn::BudgetLimits,
};
use crow_runtime::SystemPrompt;

use crate::definition::{CompositionDefinition, HandoffDefinition};

/// Reviewer that is used if a control flow needs one and none is named.
pub const DEFAULT_REVIEWER: &str = "reviewer";

/// How the models of all agents sample, in place of what files say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SamplingChoice {
    /// Temperature, from 0 to 2. Models that take none get none.
    pub temperature: Option<f32>,
    /// Seed. Providers that take none get none.
    pub seed: Option<u64>,
}

/// Choices for one agent, which override its files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentChoice {
    /// Model of every agent to which no file and no choice gives one, if any.
    pub default_model: Option<ModelRef>,
    /// The model of every agent.
    pub model: Option<ModelRef>,
    /// Model of the agents that review the work of others.
    pub reviewer_model: Option<ModelRef>,
    /// Most model calls in a turn.
    pub max_steps: Option<u32>,
    /// Most rounds in a run.
    pub max_rounds: Option<u32>,
    /// Budget of a run. Of it and the agent's own limits, the lower ones apply.
    pub budget: BudgetLimits,
    /// Control flow after a turn. If the agent's own file has this control flow, its messages and limits stay.
    pub mode: Option<Preset>,
    /// Agents that review the work, as far as the control flow uses them. If it needs one and none is named,
    /// [`DEFAULT_REVIEWER`] is used.
    pub reviewers: Option<Vec<String>>,
    /// Thinking level of the model of the agent that does the work, if it can think.
    pub thinking: Option<Thinking>,
    /// Change to the system prompt of the agent that does the work.
    pub system_prompt: Option<SystemPrompt>,
    /// How the models of all agents sample.
    pub sampling: SamplingChoice,
}

/// Control flow and reviewers of an agent: those in effect, and those of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReviewChoice {
    /// Control flow in effect by its name; `None` if it is one of the agent's own.
    pub mode: Option<Preset>,
    /// Reviewers in effect.
    pub reviewers: Vec<String>,
    /// Control flow in the files.
    pub own_mode: Option<Preset>,
    /// Reviewers in the files.
    pub own_reviewers: Vec<String>,
}

impl AgentChoice {
    /// Chooses only the model for agents that have none.
    pub fn new(default_model: ModelRef) -> Self {
        Self { default_model: Some(default_model), ..Self::default() }
    }

    /// Applies mode and reviewers to a definition. Returns also the control flow and reviewers in effect.
    pub(crate) fn apply_to(
        &self,
        mut definition: CompositionDefinition,
    ) -> (CompositionDefinition, ReviewChoice) {
        let own_mode = mode_of(&definition);
        let own_reviewers = definition.coagents.clone();
        if let Some(mode) = self.mode.filter(|mode| Some(*mode) != own_mode) {
            definition.control_flow = mode.flow();
            let handoff = definition.handoff.take();
            definition.handoff = if mode == Preset::Chat {
                Some(HandoffDefinition::Verbatim)
            } else {
                // A verbatim handoff is part of a chat and ends with it.
                handoff.filter(|handoff| *handoff != HandoffDefinition::Verbatim)
            };
        }
        // Reviewers: those chosen; if one is needed and none is named, those of the file, then the default.
        if let Some(reviewers) = &self.reviewers {
            definition.coagents.clone_from(reviewers);
        }
        let is_chosen = self.mode.is_some() || self.reviewers.is_some();
        if is_chosen && definition.control_flow.coagent_tools().is_none() {
            definition.coagents.clear();
        }
        let needs_coagent = matches!(definition.control_flow, ControlFlow::Coagent { .. });
        if needs_coagent && definition.coagents.is_empty() {
            definition.coagents.clone_from(&own_reviewers);
            if own_reviewers.is_empty() {
                definition.coagents.push(DEFAULT_REVIEWER.to_owned());
            }
        }
        let mode = mode_of(&definition);
        let reviewers = definition.coagents.clone();
        (definition, ReviewChoice { mode, reviewers, own_mode, own_reviewers })
    }
}

fn mode_of(definition: &CompositionDefinition) -> Option<Preset> {
    let is_verbatim = definition.handoff == Some(HandoffDefinition::Verbatim);
    Preset::for_flow(&definition.control_flow, is_verbatim)
}

#[cfg(test)]
mod tests {
    use crow_core::turn::RunLimits;

    use super::*;
    use crate::definition::DefinedRole;

    fn definition(flow: ControlFlow, coagents: &[&str]) -> CompositionDefinition {
        CompositionDefinition {
            name: "X".to_owned(),
            description: String::new(),
            role: DefinedRole::Primary,
            primary: "builder".to_owned(),
            coagents: coagents.iter().map(|name| (*name).to_owned()).collect(),
            consensus: crow_core::control::Consensus::default(),
            control_flow: flow,
            handoff: None,
            limits: RunLimits::default(),
            warnings: Vec::new(),
        }
    }

    fn chosen(mode: Preset, reviewers: Option<&[&str]>) -> AgentChoice {
        let reviewers =
            reviewers.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        AgentChoice { mode: Some(mode), reviewers, ..AgentChoice::default() }
    }

    #[test]
    fn every_mode_can_override_every_agent() {
        for own in Preset::ALL {
            let own_reviewers: &[&str] = if own.needs_coagent() { &["mine"] } else { &[] };
            for mode in Preset::ALL {
                let mut files = definition(own.flow(), own_reviewers);
                files.handoff = (own == Preset::Chat).then_some(HandoffDefinition::Verbatim);
                let (overridden, review) = chosen(mode, None).apply_to(files);
                assert_eq!((review.mode, review.own_mode), (Some(mode), Some(own)));
                let named = overridden.coagents.first().map(String::as_str);
                let expected = match (mode.needs_coagent(), own.needs_coagent()) {
                    (true, true) => Some("mine"),
                    (true, false) => Some(DEFAULT_REVIEWER),
                    // A loop may have advisers.
                    (false, true) if mode == Preset::Loop => Some("mine"),
                    (false, _) => None,
                };
                assert_eq!(named, expected, "{own} -> {mode}");
            }
        }
    }

    #[test]
    fn a_file_keeps_its_settings_of_the_chosen_mode() {
        let flow = ControlFlow::Static { message: "On!".to_owned(), max_rounds: Some(3) };
        let (overridden, _) = chosen(Preset::Static, None).apply_to(definition(flow.clone(), &[]));
        assert_eq!(overridden.control_flow, flow);
    }

    #[test]
    fn a_chosen_reviewer_is_used_only_if_the_mode_takes_one() {
        let files = || definition(ControlFlow::Hitl, &[]);
        let (overridden, review) = chosen(Preset::Hitl, Some(&["a"])).apply_to(files());
        assert!(overridden.coagents.is_empty() && review.reviewers.is_empty());
        let (overridden, _) = chosen(Preset::Judge, Some(&["a"])).apply_to(files());
        assert_eq!(overridden.coagents, ["a"]);
        let (overridden, _) = chosen(Preset::Judge, Some(&[])).apply_to(files());
        assert_eq!(overridden.coagents, [DEFAULT_REVIEWER]);
    }
}
