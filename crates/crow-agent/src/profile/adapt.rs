//! Application of a profile to the tools of an agent.

use std::sync::Arc;

use crow_core::{model::ToolDefinition, tool::ToolRegistry};
use serde_json::Value;

use super::{EditTool, ModelProfile, ToolDescription};

impl ModelProfile {
    /// Leaves out tools, puts one edit tool in place of the other, and rewords descriptions. `available` are all tools
    /// of the product.
    pub(crate) fn adapt(&self, tools: &mut ToolRegistry, available: &ToolRegistry) {
        tools.retain(|tool| !self.left_out.iter().any(|name| name == tool.name()));
        if let Some(edit_tool) = self.edit_tool {
            let other = match edit_tool {
                EditTool::EditFile => EditTool::ApplyPatch.tool_name(),
                EditTool::ApplyPatch => EditTool::EditFile.tool_name(),
            };
            // An agent that cannot edit gets no edit tool. Patches also make files, so they stand for both tools.
            let has = |wanted: &str| tools.names().any(|name| name == wanted);
            let has_other = has(other) && (edit_tool == EditTool::EditFile || has("write_file"));
            if let Some(tool) = available.get(edit_tool.tool_name()).filter(|_| has_other) {
                let tool = Arc::clone(tool);
                tools.unlist(other);
                tools.register_shared(tool);
            }
        }
        for (name, description) in &self.descriptions {
            if let Some(tool) = tools.get(name) {
                let definition = description.apply_to(tool.definition());
                tools.redefine(definition);
            }
        }
    }
}

impl ToolDescription {
    fn apply_to(&self, mut definition: ToolDefinition) -> ToolDefinition {
        if let Some(description) = &self.description {
            description.trim().clone_into(&mut definition.description);
        }
        let schema = &mut definition.parameters;
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|name| !self.left_out.iter().any(|left_out| name == left_out));
        }
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.retain(|name, _| !self.left_out.iter().any(|left_out| name == left_out));
            for (name, text) in &self.arguments {
                let Some(Value::Object(property)) = properties.get_mut(name) else { continue };
                if text.trim().is_empty() {
                    property.remove("description");
                } else {
                    property.insert("description".to_owned(), text.trim().into());
                }
            }
        }
        definition
    }
}
