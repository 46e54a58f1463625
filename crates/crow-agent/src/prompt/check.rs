//! What may stand in a template.

use std::{collections::BTreeMap, sync::Arc};

use crow_core::config::TextPosition;
use handlebars::{
    Template as Parsed,
    template::{BlockParam, DecoratorTemplate, HelperTemplate, Parameter, TemplateElement},
};

use super::template::{MAIN, TemplateError, parse, unknown_variable};

/// The helpers of blocks, and those that compare.
const BLOCKS: [&str; 3] = ["if", "unless", "each"];
const INLINE: [&str; 10] = ["eq", "ne", "gt", "gte", "lt", "lte", "and", "or", "not", "len"];
/// How deep templates include each other.
const DEEPEST: usize = 8;
/// How many parts a template comes to, with all that it includes and repeats.
const MOST_PARTS: u64 = 20_000;
/// For how many rounds a loop counts.
const ROUNDS: u64 = 32;

type Find<'a> = &'a dyn Fn(&str) -> Result<Option<String>, String>;

/// A check of a template and of those that it includes.
pub(super) struct TemplateCheck<'a> {
    variables: &'a [&'a str],
    find: Find<'a>,
    partials: BTreeMap<String, Arc<Parsed>>,
    /// The included templates that are being looked at, the outermost first.
    path: Vec<String>,
    parts: u64,
    /// How often what is looked at is repeated by loops.
    factor: u64,
    /// Names that blocks and includes add.
    names: Vec<String>,
    loops: usize,
}

impl<'a> TemplateCheck<'a> {
    pub(super) fn new(variables: &'a [&'a str], find: Find<'a>) -> Self {
        let (partials, path, names) = (BTreeMap::new(), vec![MAIN.to_owned()], Vec::new());
        Self { variables, find, partials, path, parts: 0, factor: 1, names, loops: 0 }
    }

    pub(super) fn into_partials(self) -> BTreeMap<String, Arc<Parsed>> {
        self.partials
    }

    pub(super) fn template(&mut self, name: &str, parsed: &Parsed) -> Result<(), TemplateError> {
        for (number, element) in parsed.elements.iter().enumerate() {
            let place = parsed
                .mapping
                .get(number)
                .map(|mapping| TextPosition { line: mapping.0, column: mapping.1 });
            let wrong = |message: String| TemplateError::new(Some(name), place, message);
            self.parts = self.parts.saturating_add(self.factor);
            if self.parts > MOST_PARTS {
                return Err(wrong(format!(
                    "the template repeats and includes more than {MOST_PARTS} parts"
                )));
            }
            match element {
                TemplateElement::RawString(_) | TemplateElement::Comment(_) => {}
                TemplateElement::Expression(tag) | TemplateElement::HtmlExpression(tag) => {
                    self.tag(tag).map_err(wrong)?;
                }
                TemplateElement::HelperBlock(block) => self.block(name, block, place)?,
                TemplateElement::PartialExpression(include) => self.include(include, place)?,
                TemplateElement::DecoratorExpression(_)
                | TemplateElement::DecoratorBlock(_)
                | TemplateElement::PartialBlock(_)
                | _ => {
                    let message = "templates and blocks cannot be defined in a template";
                    return Err(wrong(message.to_owned()));
                }
            }
        }
        Ok(())
    }

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

    fn block(
        &mut self,
        name: &str,
        block: &HelperTemplate,
        place: Option<TextPosition>,
    ) -> Result<(), TemplateError> {
        let wrong = |message: String| TemplateError::new(Some(name), place, message);
        let helper = block.name.as_name().unwrap_or_default();
        if !BLOCKS.contains(&helper) {
            return Err(wrong(unknown_helper(helper, &BLOCKS)));
        }
        self.values(block).map_err(wrong)?;
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

    fn include(
        &mut self,
        include: &DecoratorTemplate,
        place: Option<TextPosition>,
    ) -> Result<(), TemplateError> {
        let here = self.path.last().cloned().unwrap_or_default();
        let wrong = |message: String| TemplateError::new(Some(&here), place, message);
        let Parameter::Name(name) = &include.name else {
            return Err(wrong("a template is included by its name".to_owned()));
        };
        if self.path.contains(name) {
            return Err(wrong(format!("{{{{> {name}}}}} includes itself")));
        }
        if self.path.len() > DEEPEST {
            return Err(wrong(format!("more than {DEEPEST} templates include each other")));
        }
        if !include.params.is_empty() {
            return Err(wrong("an included template sees what this one sees".to_owned()));
        }
        for value in include.hash.values() {
            self.value(value).map_err(wrong)?;
        }
        let parsed = match self.partials.get(name) {
            Some(parsed) => Arc::clone(parsed),
            None => match (self.find)(name).map_err(wrong)? {
                Some(text) => Arc::new(parse(&text, Some(name))?),
                None => return Err(wrong(format!("there is no template \"{name}\""))),
            },
        };
        let names = self.names.len();
        self.names.extend(include.hash.keys().cloned());
        self.path.push(name.clone());
        let checked = self.template(name, &parsed);
        self.path.pop();
        self.names.truncate(names);
        self.partials.insert(name.clone(), parsed);
        checked
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

    fn variable(&self, path: &str) -> Result<(), String> {
        let ups = path.matches("../").count();
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
            return Err(unknown_variable(&bare, self.variables));
        }
        if in_loop && ups == 0 {
            return Err(format!("inside of #each the variable is ../{first}"));
        }
        if bare != first {
            return Err(format!("the variable {first} has no parts"));
        }
        Ok(())
    }
}

fn unknown_helper(name: &str, known: &[&str]) -> String {
    crow_core::config::unknown("helper", name, known)
}
