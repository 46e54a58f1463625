//! Recognition of servers and models that accept no tools, by the text of an error.

/// What servers call tools.
const NAMES: [&str; 8] = [
    "tools",
    "tool use",
    "tool calls",
    "tool calling",
    "function calling",
    "function calls",
    "functions",
    "tool_calls",
];
/// Texts before a name that make it a refusal.
const BEFORE: [&str; 9] = [
    "not support",
    "not support native",
    "unsupported parameter:",
    "unsupported parameter",
    "unsupported param:",
    "unknown parameter:",
    "unknown field",
    "unknown name",
    "request argument supplied:",
];
/// Texts after a name that make it a refusal.
const AFTER: [&str; 9] = [
    "is not supported",
    "are not supported",
    "not supported",
    "is not enabled",
    "are not enabled",
    "is unsupported",
    "are unsupported",
    ": extra inputs are not permitted",
    ": extra fields not permitted",
];
/// Words before a name that refuse only a kind of calls.
const KINDS: [&str; 2] = ["parallel", "multiple"];
/// Whole sentences of llama.cpp, vLLM and `OpenRouter`.
const SENTENCES: [&str; 3] = [
    "tools param requires --jinja",
    "requires --enable-auto-tool-choice",
    "no endpoints found that support tool use",
];

/// Returns true if an error says that the server or the model accepts no tools at all.
pub(crate) fn refuses_tools(message: &str) -> bool {
    let text =
        message.to_lowercase().replace(['\'', '"', '`', '’'], "").replace("doesnt", "does not");
    SENTENCES.iter().any(|sentence| text.contains(sentence))
        || NAMES.iter().any(|name| {
            text.match_indices(name).any(|(start, _)| {
                let (before, after) = (&text[..start], &text[start + name.len()..]);
                is_refused(before, after)
            })
        })
}

/// Returns true if the texts before and after a name make it a refusal.
fn is_refused(before: &str, after: &str) -> bool {
    // `tools.0.input_schema` and `custom_tools` are other things.
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '[');
    let ends_name = !after.starts_with(is_part) || after.starts_with(". ") || after == ".";
    if before.ends_with(is_part) || !ends_name {
        return false;
    }
    let before = before.trim_end();
    !KINDS.iter().any(|kind| before.ends_with(kind))
        && (BEFORE.iter().any(|text| before.ends_with(text))
            || AFTER.iter().any(|text| after.trim_start().starts_with(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_refuse_all_tools_are_recognized() {
        for message in [
            // Ollama
            "registry.ollama.ai/library/gemma3:1b does not support tools",
            "stablelm2:latest does not support tools",
            // OpenAI, Azure
            "tools is not supported in this model. For a list of supported models, refer to https://platform.openai.com/docs/guides/function-calling#models-supporting-function-calling.",
            "Unsupported parameter: 'tools' is not supported with this model.",
            "Unsupported parameter: tools",
            "Unrecognized request argument supplied: tools",
            // llama.cpp: with a template, without one, and before it had tools
            "tools param requires --jinja flag",
            "Unsupported param: tools",
            // vLLM
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            // OpenRouter
            "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing",
            // DeepInfra, Groq, Mistral, Bedrock, Gemini, watsonx
            "deepinfra error: Tool calling is not supported for model: mistralai/Mistral-Small-24B-Instruct-2501",
            "`tool calling` is not supported with this model",
            "Function calling is not enabled for this model",
            "This model doesn't support tool use in streaming mode.",
            "This model doesn’t support tool use.",
            "Invalid JSON payload received. Unknown name \"tools\": Cannot find field.",
            "Model 'x' does not support function calling.",
            // servers that check the fields of a request
            "tools: Extra inputs are not permitted",
            "tool use not supported",
        ] {
            assert!(refuses_tools(message), "{message}");
        }
    }

    #[test]
    fn errors_about_one_tool_or_one_way_to_call_are_no_refusals() {
        for message in [
            "",
            "Loading model",
            "tools.0.custom.input_schema: input_schema does not support oneOf at the top level",
            "Invalid schema for function 'bash': 'oneOf' is not supported",
            "tools[3].function.strict is not supported",
            "parallel tool calls are not supported",
            "Multiple tool calls are not supported",
            "tool_choice is not supported with this model",
            "does not support tool_choice \"required\"",
            "does not support image input, which tools return",
            "messages.1.custom_tools: Extra inputs are not permitted",
            "An assistant message with 'tool_calls' must be followed by tool messages",
            "tools: at most 128 are permitted",
        ] {
            assert!(!refuses_tools(message), "{message}");
        }
    }
}
