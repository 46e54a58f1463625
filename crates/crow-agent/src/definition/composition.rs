//! Conversion of the merged files of a composition into its definition.

use crow_core::{
    config::ConfigError,
    control::{CRITERIA_PROMPT, CoagentTools, ControlFlow},
    turn::RunLimits,
};

use super::{
    CompositionDefinition, HandoffDefinition,
    base::{check_name, reject_zero},
    raw::{
        FlowWord, HandoffWord, RawAgentLimits, RawComposition, RawControlFlow, RawHandoff,
        RawMembers,
    },
    text::DefinitionTexts,
};
use crate::layers::{Node, ValueOrigin};

const TYPE: &[&str] = &["control_flow", "type"];
const LEVEL: &[&str] = &["control_flow", "level"];

/// Reads and checks a composition. The registry checks that its members exist.
pub(super) fn read(
    name: &str,
    node: &Node,
    texts: &DefinitionTexts<'_>,
) -> Result<CompositionDefinition, ConfigError> {
    let raw: RawComposition = node.read()?;
    check_name(name, &raw.agent, node)?;
    let flow = ControlFlowFields { raw: &raw.control_flow, node };
    let (control_flow, is_chat) = flow.read()?;
    let coagents = coagents(&raw.composition, node)?;
    // Coagents that do not fit the control flow: an error if one is needed, otherwise a warning.
    let mut warnings = Vec::new();
    let mut warn =
        |origin: &ValueOrigin, message: String| warnings.push(origin.error(message).to_string());
    match (control_flow.coagent_tools(), coagents.len()) {
        (Some(_), 0) if matches!(control_flow, ControlFlow::Coagent { .. }) => {
            return Err(flow.origin().error(format!(
                "{} needs a reviewer: name one in composition.coagent",
                flow.name()
            )));
        }
        (None, 1..) => warn(
            member_origin(&raw.composition, node),
            format!("{} uses no coagent; the named one is ignored", flow.name()),
        ),
        (Some(CoagentTools::Full), 2..) => warn(
            member_origin(&raw.composition, node),
            "several coagents work at the same time, so each of them only reads".to_owned(),
        ),
        (Some(_) | None, _) => {}
    }
    let handoff = match &raw.handoff {
        Some(handoff) => Some(read_handoff(handoff, node, texts)?),
        None if is_chat => Some(HandoffDefinition::Verbatim),
        None => None,
    };
    if raw.handoff.is_some() && coagents.is_empty() {
        warn(node.origin_of(&["handoff"]), "handoff is unused without a coagent".to_owned());
    }
    Ok(CompositionDefinition {
        name: name.to_owned(),
        description: raw.agent.description.trim().to_owned(),
        role: raw.agent.role.into(),
        primary: raw.composition.primary,
        coagents,
        consensus: raw.composition.consensus,
        control_flow,
        handoff,
        limits: limits(&raw.limits, node)?,
        warnings,
    })
}

/// Returns the place in the files that names the coagents.
pub(super) fn member_origin<'a>(raw: &RawMembers, node: &'a Node) -> &'a ValueOrigin {
    let key = if raw.coagents.is_some() { "coagents" } else { "coagent" };
    node.origin_of(&["composition", key])
}

fn coagents(raw: &RawMembers, node: &Node) -> Result<Vec<String>, ConfigError> {
    let names = match (&raw.coagent, &raw.coagents) {
        (None, None) => return Ok(Vec::new()),
        (Some(one), None) => vec![one.clone()],
        (None, Some(several)) => several.clone(),
        (Some(one), Some(several)) => {
            let origin = |key| node.origin_of(&["composition", key]);
            // The higher layer is meant to replace the lower one.
            match origin("coagent").layer().cmp(&origin("coagents").layer()) {
                std::cmp::Ordering::Less => several.clone(),
                std::cmp::Ordering::Greater => vec![one.clone()],
                std::cmp::Ordering::Equal => {
                    return Err(origin("coagents").error("coagent and coagents exclude each other"));
                }
            }
        }
    };
    for (number, name) in names.iter().enumerate() {
        if names.get(..number).is_some_and(|before| before.contains(name)) {
            let origin = node.origin_of(&["composition", "coagents", &number.to_string()]);
            return Err(origin.error(format!("\"{name}\" is named twice")));
        }
    }
    Ok(names)
}

/// Reader for the control flow of a file.
struct ControlFlowFields<'a> {
    raw: &'a RawControlFlow,
    node: &'a Node,
}

impl ControlFlowFields<'_> {
    /// Reads the control flow. The flag is true for a chat.
    fn read(&self) -> Result<(ControlFlow, bool), ConfigError> {
        let kind = match (self.raw.kind, self.raw.level) {
            (Some(_), Some(_)) => {
                return Err(self.node.origin_of(LEVEL).error("type and level exclude each other"));
            }
            (Some(kind), None) => kind,
            (None, Some(level)) => return self.of_level(level),
            (None, None) => {
                let origin = self.node.origin_of(&["control_flow"]);
                return Err(origin.error("the key control_flow.type is missing"));
            }
        };
        let max_rounds = self.max_rounds(kind)?;
        // Keys that belong to other types are errors.
        self.only_of("message", self.raw.message.is_some(), &[FlowWord::Static])?;
        let has_prompt = self.raw.generator_prompt.is_some();
        self.only_of("generator_prompt", has_prompt, &[FlowWord::Generated])?;
        self.only_of("tools", self.raw.tools.is_some(), &[FlowWord::Coagent])?;
        self.only_of("can_terminate", self.raw.can_terminate.is_some(), &[FlowWord::Coagent])?;
        let flow = match kind {
            FlowWord::Hitl => ControlFlow::Hitl,
            FlowWord::Loop => ControlFlow::Loop { max_rounds },
            FlowWord::Static => ControlFlow::Static {
                message: self.text(self.raw.message.as_ref(), "message")?,
                max_rounds,
            },
            FlowWord::Generated => ControlFlow::Generated {
                generator_prompt: match &self.raw.generator_prompt {
                    None => CRITERIA_PROMPT.to_owned(),
                    prompt => self.text(prompt.as_ref(), "generator_prompt")?,
                },
                max_rounds,
            },
            FlowWord::Advise => bounded(ControlFlow::advise(), max_rounds),
            FlowWord::Judge => bounded(ControlFlow::judge(), max_rounds),
            FlowWord::Smart => bounded(ControlFlow::smart(), max_rounds),
            FlowWord::Chat => ControlFlow::chat(max_rounds),
            FlowWord::Coagent => ControlFlow::Coagent {
                tools: self.raw.tools.unwrap_or(CoagentTools::ReadOnly),
                can_terminate: self.raw.can_terminate.unwrap_or(false),
                max_rounds,
            },
        };
        Ok((flow, kind == FlowWord::Chat))
    }

    /// Reads a control flow that is given by its level.
    fn of_level(&self, level: i64) -> Result<(ControlFlow, bool), ConfigError> {
        let flow = ControlFlow::from_level(level)
            .map_err(|error| self.node.origin_of(LEVEL).error(error.to_string()))?;
        self.only_of("max_turns", self.raw.max_turns.is_some(), &[FlowWord::Chat])?;
        self.only_of("tools", self.raw.tools.is_some(), &[FlowWord::Coagent])?;
        self.only_of("can_terminate", self.raw.can_terminate.is_some(), &[FlowWord::Coagent])?;
        let has_message = self.raw.message.is_some() && !matches!(flow, ControlFlow::Static { .. });
        self.only_of("message", has_message, &[FlowWord::Static])?;
        let has_prompt =
            self.raw.generator_prompt.is_some() && !matches!(flow, ControlFlow::Generated { .. });
        self.only_of("generator_prompt", has_prompt, &[FlowWord::Generated])?;
        let (raw, max_rounds) = (self.raw, self.max_rounds_of(&["max_rounds", "max_iterations"])?);
        let flow = match flow {
            ControlFlow::Static { message, .. } => {
                let message = raw.message.clone().unwrap_or(message);
                ControlFlow::Static { message, max_rounds }
            }
            ControlFlow::Generated { generator_prompt, .. } => {
                let own = raw.generator_prompt.clone();
                let generator_prompt = own.unwrap_or(generator_prompt);
                ControlFlow::Generated { generator_prompt, max_rounds }
            }
            ControlFlow::Loop { .. } => ControlFlow::Loop { max_rounds },
            flow @ (ControlFlow::Hitl | ControlFlow::Coagent { .. }) => bounded(flow, max_rounds),
        };
        Ok((flow, false))
    }

    /// Returns the maximum number of rounds, which has three keys: that of the highest layer counts.
    fn max_rounds(&self, kind: FlowWord) -> Result<Option<u32>, ConfigError> {
        let with_iterations = [FlowWord::Loop, FlowWord::Static, FlowWord::Generated];
        self.only_of("max_iterations", self.raw.max_iterations.is_some(), &with_iterations)?;
        self.only_of("max_turns", self.raw.max_turns.is_some(), &[FlowWord::Chat])?;
        if kind == FlowWord::Hitl && self.raw.max_rounds.is_some() {
            let origin = self.node.origin_of(&["control_flow", "max_rounds"]);
            return Err(origin.error("hitl returns after every round"));
        }
        self.max_rounds_of(&["max_rounds", "max_iterations", "max_turns"])
    }

    fn max_rounds_of(&self, keys: &[&str]) -> Result<Option<u32>, ConfigError> {
        let mut last: Option<(&ValueOrigin, u32, &str)> = None;
        for key in keys {
            let path = ["control_flow", key];
            let given = match *key {
                "max_iterations" => self.raw.max_iterations,
                "max_turns" => self.raw.max_turns,
                _ => self.raw.max_rounds,
            };
            let Some(rounds) = reject_zero(given, self.node, &path)? else { continue };
            let origin = self.node.origin_of(&path);
            match last {
                Some((before, _, name)) if before.layer() == origin.layer() => {
                    return Err(origin.error(format!("{name} already sets the same limit")));
                }
                Some((before, _, _)) if before.layer() > origin.layer() => {}
                Some(_) | None => last = Some((origin, rounds, key)),
            }
        }
        Ok(last.map(|(_, rounds, _)| rounds))
    }

    /// Rejects a key that has no meaning in this control flow, because it was meant for another one.
    fn only_of(
        &self,
        key: &str,
        is_present: bool,
        allowed: &[FlowWord],
    ) -> Result<(), ConfigError> {
        let kind = self.raw.kind;
        if !is_present || kind.is_some_and(|kind| allowed.contains(&kind)) {
            return Ok(());
        }
        let allowed: Vec<&str> = allowed.iter().map(|flow| flow.as_str()).collect();
        let origin = self.node.origin_of(&["control_flow", key]);
        Err(origin.error(format!(
            "{key} is for {}, and this is {}",
            allowed.join(", "),
            self.name()
        )))
    }

    fn text(&self, text: Option<&String>, key: &str) -> Result<String, ConfigError> {
        text.filter(|text| !text.trim().is_empty()).cloned().ok_or_else(|| {
            let origin = self.node.origin_of(&["control_flow", key]);
            origin.error(format!("{} needs the key {key}", self.name()))
        })
    }

    fn name(&self) -> String {
        match (self.raw.kind, self.raw.level) {
            (Some(kind), _) => kind.as_str().to_owned(),
            (None, Some(level)) => format!("level {level}"),
            (None, None) => "it".to_owned(),
        }
    }

    fn origin(&self) -> &ValueOrigin {
        self.node.origin_of(if self.raw.kind.is_some() { TYPE } else { LEVEL })
    }
}

impl FlowWord {
    fn as_str(self) -> &'static str {
        match self {
            Self::Hitl => "hitl",
            Self::Loop => "loop",
            Self::Static => "static",
            Self::Generated => "generated",
            Self::Advise => "advise",
            Self::Judge => "judge",
            Self::Smart => "smart",
            Self::Chat => "chat",
            Self::Coagent => "coagent",
        }
    }
}

/// Replaces the maximum number of rounds of a coagent flow, if `rounds` is given.
fn bounded(flow: ControlFlow, rounds: Option<u32>) -> ControlFlow {
    match flow {
        ControlFlow::Coagent { tools, can_terminate, max_rounds } => {
            ControlFlow::Coagent { tools, can_terminate, max_rounds: rounds.or(max_rounds) }
        }
        flow @ (ControlFlow::Hitl
        | ControlFlow::Loop { .. }
        | ControlFlow::Static { .. }
        | ControlFlow::Generated { .. }) => flow,
    }
}

fn read_handoff(
    raw: &RawHandoff,
    node: &Node,
    texts: &DefinitionTexts<'_>,
) -> Result<HandoffDefinition, ConfigError> {
    let needs = |key: &str| {
        let origin = node.origin_of(&["handoff", key]);
        origin.error(format!("this type of handoff needs the key {key}"))
    };
    let given = [
        ("text", raw.text.is_some(), HandoffWord::Static),
        ("template", raw.template.is_some(), HandoffWord::Template),
        ("generator_prompt", raw.generator_prompt.is_some(), HandoffWord::Generated),
    ];
    // `static` may have its text under either key.
    let fits = |key: &str, kind: HandoffWord| {
        raw.kind == kind || (raw.kind == HandoffWord::Static && key == "template")
    };
    if let Some((key, _, _)) =
        given.iter().find(|(key, is_present, kind)| *is_present && !fits(key, *kind))
    {
        let origin = node.origin_of(&["handoff", key]);
        return Err(origin.error(format!("{key} is for another type of handoff")));
    }
    Ok(match raw.kind {
        HandoffWord::Verbatim => HandoffDefinition::Verbatim,
        HandoffWord::Static => {
            let key = if raw.text.is_some() { "text" } else { "template" };
            let text = raw.text.as_ref().or(raw.template.as_ref()).ok_or_else(|| needs("text"))?;
            HandoffDefinition::Static(texts.read(text, node, &["handoff", key])?.content)
        }
        HandoffWord::Template => {
            let raw = raw.template.as_ref().ok_or_else(|| needs("template"))?;
            let text = texts.read(raw, node, &["handoff", "template"])?;
            let parsed = texts.prompts.parse_handoff(&text.content);
            parsed.map_err(|error| text.template_error(&error))?;
            HandoffDefinition::Template(text.content)
        }
        HandoffWord::Generated => HandoffDefinition::Generated {
            generator_prompt: raw
                .generator_prompt
                .clone()
                .filter(|prompt| !prompt.trim().is_empty())
                .ok_or_else(|| needs("generator_prompt"))?,
        },
    })
}

fn limits(raw: &RawAgentLimits, node: &Node) -> Result<RunLimits, ConfigError> {
    if raw.max_money.is_some_and(|money| !money.is_finite() || money <= 0.0) {
        let origin = node.origin_of(&["limits", "max_money"]);
        return Err(origin.error("an amount of US dollars is more than 0"));
    }
    let defaults = RunLimits::default();
    let rounds = reject_zero(raw.max_rounds, node, &["limits", "max_rounds"])?;
    Ok(RunLimits {
        max_rounds: rounds.unwrap_or(defaults.max_rounds),
        max_tokens: reject_zero(raw.max_tokens, node, &["limits", "max_tokens"])?,
        max_money: raw.max_money,
        max_time: raw.max_time.map(Into::into),
    })
}
