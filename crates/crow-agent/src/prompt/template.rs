//! Templates of prompts, which are checked before they are used.
//!
//! Their texts come from files of several authors. A template can use only variables that exist, cannot include
//! itself, and its depth and the size of its result have limits.
//!
//! Templates are a restricted form of Handlebars. The check walks through a parsed template and the partials that it
//! includes. It rejects unknown variables and helpers, definitions of templates, and partials that include
//! themselves. To bound the size of the result it counts parts, and multiplies those in loops by an assumed number of
//! rounds.

use std::{collections::BTreeMap, fmt, io, sync::Arc};

use crow_core::config::{TextPosition, unknown_word_message};
use handlebars::{
    Handlebars, Template as Parsed, no_escape,
    template::{BlockParam, DecoratorTemplate, HelperTemplate, Parameter, TemplateElement},
};
use serde::Serialize;

/// Most blocks of one template.
const MOST_BLOCKS: usize = 200;
/// Longest tag, in bytes.
const LONGEST_TAG: usize = 400;
/// Largest rendered text, in bytes.
const LARGEST: usize = 512 * 1024;

/// A checked template, with all partials that it includes.
#[derive(Debug, Clone)]
pub struct Template {
    parsed: BTreeMap<String, Arc<Parsed>>,
}

/// A reason for which a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// Name of the partial with the error, if it is in one.
    pub partial: Option<String>,
    /// Position in the template or partial.
    pub position: Option<TextPosition>,
    /// Description of the error.
    pub message: String,
}

/// Name of the template itself, among its partials.
const MAIN: &str = "";

impl Template {
    /// Parses a template and its partials, which `partial` finds by name, and checks that they use no variables other
    /// than
    /// `variables`.
    pub fn parse(
        text: &str,
        variables: &[&str],
        partial: &dyn Fn(&str) -> Result<Option<String>, String>,
    ) -> Result<Self, TemplateError> {
        let main = parse(text, None)?;
        let mut check = TemplateCheck::new(variables, partial);
        check.template(MAIN, &main)?;
        let mut parsed = check.into_partials();
        parsed.insert(MAIN.to_owned(), Arc::new(main));
        Ok(Self { parsed })
    }

    /// Renders the template with these values.
    pub fn render(&self, values: &impl Serialize) -> Result<String, TemplateError> {
        let mut registry = Handlebars::new();
        registry.set_strict_mode(true);
        registry.register_escape_fn(no_escape);
        for (name, parsed) in &self.parsed {
            registry.register_template(name, Parsed::clone(parsed));
        }
        let mut text = BoundedOutput(Vec::new());
        registry.render_to_write(MAIN, values, &mut text).map_err(|error| TemplateError {
            partial: None,
            position: error
                .line_no
                .zip(error.column_no)
                .map(|(line, column)| TextPosition { line, column }),
            message: if text.0.len() >= LARGEST {
                format!("the text grows to more than {} KiB", LARGEST >> 10)
            } else {
                error.reason().to_string()
            },
        })?;
        String::from_utf8(text.0).map_err(|_| TemplateError::new(None, None, "gives no text"))
    }
}

impl TemplateError {
    pub(super) fn new(
        partial: Option<&str>,
        place: Option<TextPosition>,
        message: impl Into<String>,
    ) -> Self {
        let partial = partial.filter(|name| *name != MAIN).map(str::to_owned);
        Self { partial, position: place, message: message.into() }
    }
}

impl std::error::Error for TemplateError {}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.partial, self.position) {
            (Some(partial), Some(place)) => write!(f, "in {{{{> {partial}}}}}, {place}: ")?,
            (Some(partial), None) => write!(f, "in {{{{> {partial}}}}}: ")?,
            (None, Some(place)) => write!(f, "in the template, {place}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.message)
    }
}

/// Parses a text. Rejects in advance what could keep the parser busy.
pub(super) fn parse(text: &str, partial: Option<&str>) -> Result<Parsed, TemplateError> {
    let error_at = |place, message: String| TemplateError::new(partial, place, message);
    let mut blocks = 0;
    for (start, _) in text.match_indices("{{") {
        let rest = &text[start + 2..];
        let end = rest.find("}}").unwrap_or(rest.len());
        let place = || Some(TextPosition::of_byte(text, start));
        let is_comment = rest.trim_start_matches('~').starts_with('!');
        if end > LONGEST_TAG && !is_comment && !rest.starts_with('{') {
            return Err(error_at(place(), format!("a tag of more than {LONGEST_TAG} bytes")));
        }
        if rest.trim_start_matches('~').starts_with(['#', '^', '{']) {
            blocks += 1;
        }
        if blocks > MOST_BLOCKS {
            return Err(error_at(place(), format!("more than {MOST_BLOCKS} blocks")));
        }
    }
    Parsed::compile(text).map_err(|error| {
        let place = error.pos().map(|(line, column)| TextPosition { line, column });
        error_at(place, syntax(&error.reason().to_string()))
    })
}

/// Shortens a message of the parser: its list of expected grammar rules does not help the author.
fn syntax(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let description = if reason.contains("invalid handlebars syntax") {
        "this tag is not complete"
    } else {
        line
    };
    format!("{description}; write \\{{{{ for literal braces")
}

/// Output that fails when the limit is reached.
struct BoundedOutput(Vec<u8>);

impl io::Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if self.0.len() >= LARGEST {
            return Err(io::Error::other("too much"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Block helpers, and helpers that compare.
const BLOCKS: [&str; 3] = ["if", "unless", "each"];
const INLINE: [&str; 10] = ["eq", "ne", "gt", "gte", "lt", "lte", "and", "or", "not", "len"];
/// Deepest nesting of partials.
const DEEPEST: usize = 8;
/// Most parts of a template, with all its partials and repetitions.
const MOST_PARTS: u64 = 20_000;
/// Number of rounds that a loop is assumed to have.
const ROUNDS: u64 = 32;

type Find<'a> = &'a dyn Fn(&str) -> Result<Option<String>, String>;

/// State of the check of a template and its partials.
struct TemplateCheck<'a> {
    variables: &'a [&'a str],
    find: Find<'a>,
    partials: BTreeMap<String, Arc<Parsed>>,
    /// Names of the templates being checked, the outermost first.
    path: Vec<String>,
    parts: u64,
    /// Number of repetitions of the current part by the loops around it.
    factor: u64,
    /// Names that the parameters of blocks and partials add.
    names: Vec<String>,
    loops: usize,
}

impl<'a> TemplateCheck<'a> {
    pub(super) fn new(variables: &'a [&'a str], find: Find<'a>) -> Self {
        let (partials, path, names) = (BTreeMap::new(), vec![MAIN.to_owned()], Vec::new());
        Self { variables, find, partials, path, parts: 0, factor: 1, names, loops: 0 }
    }

    fn into_partials(self) -> BTreeMap<String, Arc<Parsed>> {
        self.partials
    }

    /// Checks the elements of a parsed template.
    pub(super) fn template(&mut self, name: &str, parsed: &Parsed) -> Result<(), TemplateError> {
        for (number, element) in parsed.elements.iter().enumerate() {
            let place = parsed
                .mapping
                .get(number)
                .map(|mapping| TextPosition { line: mapping.0, column: mapping.1 });
            let error_at = |message: String| TemplateError::new(Some(name), place, message);
            self.parts = self.parts.saturating_add(self.factor);
            if self.parts > MOST_PARTS {
                return Err(error_at(format!(
                    "the template repeats and includes more than {MOST_PARTS} parts"
                )));
            }
            match element {
                TemplateElement::RawString(_) | TemplateElement::Comment(_) => {}
                TemplateElement::Expression(tag) | TemplateElement::HtmlExpression(tag) => {
                    self.tag(tag).map_err(error_at)?;
                }
                TemplateElement::HelperBlock(block) => self.block(name, block, place)?,
                TemplateElement::PartialExpression(include) => self.include(include, place)?,
                TemplateElement::DecoratorExpression(_)
                | TemplateElement::DecoratorBlock(_)
                | TemplateElement::PartialBlock(_)
                | _ => {
                    let message = "templates and blocks cannot be defined in a template";
                    return Err(error_at(message.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Checks a variable or a helper that compares.
    fn tag(&self, tag: &HelperTemplate) -> Result<(), String> {
        if tag.params.is_empty() && tag.hash.is_empty() {
            return self.value(&tag.name);
        }
        let helper = tag.name.as_name().unwrap_or_default();
        if !INLINE.contains(&helper) {
            return Err(unknown_helper(helper, &INLINE));
        }
        self.values(tag)
    }

    /// Checks a block. A loop multiplies the number of parts and adds the names of its parameters.
    fn block(
        &mut self,
        name: &str,
        block: &HelperTemplate,
        place: Option<TextPosition>,
    ) -> Result<(), TemplateError> {
        let error_at = |message: String| TemplateError::new(Some(name), place, message);
        let helper = block.name.as_name().unwrap_or_default();
        if !BLOCKS.contains(&helper) {
            return Err(error_at(unknown_helper(helper, &BLOCKS)));
        }
        self.values(block).map_err(error_at)?;
        let (names, factor) = (self.names.len(), self.factor);
        if helper == "each" {
            self.loops += 1;
            self.factor = self.factor.saturating_mul(ROUNDS);
            match &block.block_param {
                Some(BlockParam::Single(one)) => self.add_name(one),
                Some(BlockParam::Pair((one, other))) => {
                    self.add_name(one);
                    self.add_name(other);
                }
                Some(_) | None => {}
            }
        }
        let inside = block.template.as_ref().map_or(Ok(()), |inside| self.template(name, inside));
        self.factor = factor;
        self.names.truncate(names);
        if helper == "each" {
            self.loops -= 1;
        }
        inside?;
        block.inverse.as_ref().map_or(Ok(()), |inside| self.template(name, inside))
    }

    /// Checks a partial, which is read and parsed when it is first included.
    fn include(
        &mut self,
        include: &DecoratorTemplate,
        place: Option<TextPosition>,
    ) -> Result<(), TemplateError> {
        let here = self.path.last().cloned().unwrap_or_default();
        let error_at = |message: String| TemplateError::new(Some(&here), place, message);
        let Parameter::Name(name) = &include.name else {
            return Err(error_at("a template is included by its name".to_owned()));
        };
        if self.path.contains(name) {
            return Err(error_at(format!("{{{{> {name}}}}} includes itself")));
        }
        if self.path.len() > DEEPEST {
            return Err(error_at(format!("more than {DEEPEST} templates include each other")));
        }
        if !include.params.is_empty() {
            return Err(error_at("an included template takes no parameters".to_owned()));
        }
        for value in include.hash.values() {
            self.value(value).map_err(error_at)?;
        }
        let parsed = match self.partials.get(name) {
            Some(parsed) => Arc::clone(parsed),
            None => match (self.find)(name).map_err(error_at)? {
                Some(text) => Arc::new(parse(&text, Some(name))?),
                None => return Err(error_at(format!("there is no template \"{name}\""))),
            },
        };
        let names = self.names.len();
        self.names.extend(include.hash.keys().cloned());
        self.path.push(name.clone());
        let result = self.template(name, &parsed);
        self.path.pop();
        self.names.truncate(names);
        self.partials.insert(name.clone(), parsed);
        result
    }

    fn add_name(&mut self, name: &Parameter) {
        self.names.extend(name.as_name().map(str::to_owned));
    }

    fn values(&self, tag: &HelperTemplate) -> Result<(), String> {
        tag.params.iter().chain(tag.hash.values()).try_for_each(|value| self.value(value))
    }

    fn value(&self, value: &Parameter) -> Result<(), String> {
        match value {
            Parameter::Literal(_) => Ok(()),
            Parameter::Name(name) => self.variable(name),
            Parameter::Path(_) => self.variable(value.as_name().unwrap_or_default()),
            Parameter::Subexpression(inner) => {
                let helper = inner.name();
                if !INLINE.contains(&helper) {
                    return Err(unknown_helper(helper, &INLINE));
                }
                let params = inner.params().into_iter().flatten();
                let hash = inner.hash().into_iter().flat_map(|hash| hash.values());
                params.chain(hash).try_for_each(|value| self.value(value))
            }
            _ => Err("this value is not known".to_owned()),
        }
    }

    /// Checks the name of a variable. In a loop the variables of the template need `../`.
    fn variable(&self, path: &str) -> Result<(), String> {
        let parent_steps = path.matches("../").count();
        let bare = path.replace("../", "");
        let first = bare.split(['.', '/', '[']).next().unwrap_or_default();
        let in_loop = self.loops > 0;
        if in_loop && (path.starts_with('@') || matches!(bare.as_str(), "this" | ".")) {
            return Ok(());
        }
        if self.names.iter().any(|name| name == first) {
            return Ok(());
        }
        if !self.variables.contains(&first) {
            return Err(unknown_word_message("variable", &bare, self.variables));
        }
        if in_loop && parent_steps == 0 {
            return Err(format!("inside of #each the variable is ../{first}"));
        }
        if bare != first {
            return Err(format!("the variable {first} has no parts"));
        }
        Ok(())
    }
}

fn unknown_helper(name: &str, known: &[&str]) -> String {
    unknown_word_message("helper", name, known)
}
