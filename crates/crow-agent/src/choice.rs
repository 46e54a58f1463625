//! What is chosen for an agent, over what its files say.

use crow_core::{
    control::{ControlFlow, Preset},
    model::{ModelRef, Thinking},
};
use crow_runtime::SystemPrompt;

use crate::definition::{CompositionDefinition, HandoffDefinition};

/// Who looks at the work where a control flow needs somebody and nobody is named.
pub const DEFAULT_REVIEWER: &str = "reviewer";

/// What is chosen for one agent, over what its files say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct AgentChoice {
    /// The model of every agent that no file and no choice gives one, if there is any.
    pub default_model: Option<ModelRef>,
    /// The model of every agent.
    pub model: Option<ModelRef>,
    /// The model of those that look at the work of others.
    pub reviewer_model: Option<ModelRef>,
    /// The most model calls of a turn.
    pub max_steps: Option<u32>,
    /// The most rounds of a run.
    pub max_rounds: Option<u32>,
    /// What comes after a turn. What the agent's own file says of this control flow stays: its messages, its bounds.
    pub mode: Option<Preset>,
    /// Who looks at the work, as far as the control flow has a place for them. Where it needs somebody and nobody is named,
    /// [`DEFAULT_REVIEWER`] does.
    pub reviewers: Option<Vec<String>>,
    /// How much the model of the agent that does the work thinks, if it can.
    pub thinking: Option<Thinking>,
    /// What becomes of the system prompt of the agent that does the work.
    pub system_prompt: Option<SystemPrompt>,
}

/// What comes after a turn of an agent, and who looks at its work: as it was chosen, and as its files say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReviewChoice {
    /// The control flow by its name; none if it is one of the agent's own.
    pub mode: Option<Preset>,
    /// Those who look at the work.
    pub reviewers: Vec<String>,
    /// What the files say of the first.
    pub own_mode: Option<Preset>,
    /// What the files say of the second.
    pub own_reviewers: Vec<String>,
}

impl AgentChoice {
    /// Chooses nothing but the model to ask where no other one is named.
    pub fn new(default_model: ModelRef) -> Self {
        Self { default_model: Some(default_model), ..Self::default() }
    }

    /// Puts mode and reviewers over what the files say.
    pub(crate) fn over(
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
                // That of a chat is part of its being one.
                handoff.filter(|handoff| *handoff != HandoffDefinition::Verbatim)
            };
        }
        if let Some(reviewers) = &self.reviewers {
            definition.coagents.clone_from(reviewers);
        }
        let is_chosen = self.mode.is_some() || self.reviewers.is_some();
        if is_chosen && definition.control_flow.coagent_tools().is_none() {
            definition.coagents.clear();
        }
        let needs = matches!(definition.control_flow, ControlFlow::Coagent { .. });
        if needs && definition.coagents.is_empty() {
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
    Preset::of(&definition.control_flow, is_verbatim)
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
    fn every_mode_can_be_put_over_every_agent() {
        for own in Preset::ALL {
            let own_reviewers: &[&str] = if own.needs_coagent() { &["mine"] } else { &[] };
            for mode in Preset::ALL {
                let mut files = definition(own.flow(), own_reviewers);
                files.handoff = (own == Preset::Chat).then_some(HandoffDefinition::Verbatim);
                let (made, standing) = chosen(mode, None).over(files);
                assert_eq!((standing.mode, standing.own_mode), (Some(mode), Some(own)));
                let named = made.coagents.first().map(String::as_str);
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
    fn what_a_file_says_of_the_chosen_mode_stays() {
        let flow = ControlFlow::Static { message: "On!".to_owned(), max_rounds: Some(3) };
        let (made, _) = chosen(Preset::Static, None).over(definition(flow.clone(), &[]));
        assert_eq!(made.control_flow, flow);
    }

    #[test]
    fn a_reviewer_is_seated_only_where_there_is_a_place() {
        let files = || definition(ControlFlow::Hitl, &[]);
        let (made, standing) = chosen(Preset::Hitl, Some(&["a"])).over(files());
        assert!(made.coagents.is_empty() && standing.reviewers.is_empty());
        let (made, _) = chosen(Preset::Judge, Some(&["a"])).over(files());
        assert_eq!(made.coagents, ["a"]);
        let (made, _) = chosen(Preset::Judge, Some(&[])).over(files());
        assert_eq!(made.coagents, [DEFAULT_REVIEWER]);
    }
}
