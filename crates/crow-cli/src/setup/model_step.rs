//! The step that chooses a model of a provider or server.

use crow_core::model::ModelRef;
use crow_providers::{FoundModel, ProviderSummary};
use crow_text::one_line;

use crate::command::model_facts;

/// Maximum number of models that are listed.
const LISTED: usize = 8;
/// Fewest digits of a date in the id of a version, such as 2026-11 or 20261128.
const DATE_DIGITS: usize = 6;
/// Maximum length of an id, in bytes.
const LONGEST_ID: usize = 128;

/// The models that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelOffers {
    provider: String,
    /// Ids and facts of the listed ones, the default first.
    shown: Vec<(String, String)>,
    /// All ids that the service lists; empty if it was not asked, or lists none.
    served: Vec<String>,
}

/// The model that an answer names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NamedModel {
    Known(ModelRef),
    /// The service does not list it.
    Unlisted(ModelRef),
}

impl ModelOffers {
    /// Returns the models of a provider, of which the service serves `served`.
    pub(super) fn of_provider(provider: &ProviderSummary, served: &[FoundModel]) -> Self {
        let served: Vec<String> = served.iter().map(|model| model.id.clone()).collect();
        let is_default = |id: &str| provider.default_model.as_deref() == Some(id);
        let known = provider.models.iter().map(|model| {
            (model.info.reference.model.clone(), model_facts(model).trim().to_owned())
        });
        let mut shown: Vec<_> = known.filter(|(id, _)| is_served(id, &served)).collect();
        let is_new = |id: &String| shown.iter().all(|(known, _)| known != id);
        let others: Vec<_> = served.iter().filter(|id| is_new(id)).cloned().collect();
        shown.extend(others.into_iter().map(|id| (id, String::new())));
        shown.sort_by_key(|(id, _)| !is_default(id));
        shown.truncate(LISTED);
        Self { provider: provider.name.clone(), shown, served }
    }

    /// Returns the models of a server.
    pub(super) fn of_server(provider: &str, served: &[FoundModel]) -> Self {
        let ids = served.iter().map(|model| model.id.clone());
        let shown = ids.clone().take(LISTED).map(|id| (id, String::new())).collect();
        Self { provider: provider.to_owned(), shown, served: ids.collect() }
    }

    /// Returns the lines of the list.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.shown.iter().map(|(id, facts)| match facts.as_str() {
            "" => one_line(id),
            facts => format!("{}: {facts}", one_line(id)),
        })
    }

    /// Says what can be answered.
    pub(super) fn question(&self) -> String {
        let more = match self.served.len().saturating_sub(self.shown.len()) {
            0 => String::new(),
            more => format!(" There are {more} more, which `crow-agent models --refresh` lists."),
        };
        match self.shown.first() {
            Some((default, _)) => format!(
                "Which model? A number, a name, or enter for {}; q leaves.{more}",
                one_line(default)
            ),
            None => "Which model? Give its name; q leaves.".to_owned(),
        }
    }

    /// Returns the model that an answer names: by its number, or by its id, with or without the provider. Nothing names the
    /// default. The error is a sentence.
    pub(super) fn parse(&self, answer: &str) -> Result<NamedModel, String> {
        let reference =
            |id: &str| ModelRef { provider: self.provider.clone(), model: id.to_owned() };
        if answer.is_empty() {
            let default = self.shown.first().ok_or("Give the name of a model.")?;
            return Ok(NamedModel::Known(reference(&default.0)));
        }
        if let Ok(number) = answer.parse::<usize>() {
            let chosen = number.checked_sub(1).and_then(|index| self.shown.get(index));
            let (id, _) = chosen.ok_or_else(|| format!("There is no number {number}."))?;
            return Ok(NamedModel::Known(reference(id)));
        }
        let without_provider = answer.strip_prefix(self.provider.as_str());
        let without_provider = without_provider.and_then(|rest| rest.strip_prefix('/'));
        let is_id = self.served.iter().any(|id| id == answer);
        let id = without_provider.filter(|_| !is_id).unwrap_or(answer);
        let is_plain = id.chars().all(|c| c.is_ascii_graphic());
        if !is_plain || id.len() > LONGEST_ID {
            return Err("This is no name of a model.".to_owned());
        }
        let is_known = self.shown.iter().any(|(shown, _)| shown == id);
        if is_known || is_served(id, &self.served) {
            return Ok(NamedModel::Known(reference(id)));
        }
        Ok(NamedModel::Unlisted(reference(id)))
    }
}

/// Returns true if a service lists a model, or a dated version of it. A service that lists none may have any.
fn is_served(id: &str, served: &[String]) -> bool {
    let is_date = |text: &str| {
        let digits = text.chars().filter(char::is_ascii_digit).count();
        digits >= DATE_DIGITS && text.chars().all(|c| c.is_ascii_digit() || c == '-')
    };
    let is_version = |one: &String| {
        one.strip_prefix(id).is_some_and(|rest| rest.starts_with('-') && is_date(rest))
    };
    served.is_empty() || served.iter().any(|one| one == id || is_version(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(served: &[&str]) -> ModelOffers {
        let model = |id: &&str| FoundModel { id: (*id).to_owned(), context_window: None };
        ModelOffers::of_server("house", &served.iter().map(model).collect::<Vec<_>>())
    }

    fn reference(id: &str) -> ModelRef {
        ModelRef { provider: "house".to_owned(), model: id.to_owned() }
    }

    #[test]
    fn a_model_is_named_by_number_id_reference_or_nothing() {
        let offers = offers(&["a", "b-20261128", "house/c", "d-4-5"]);
        for (answer, expected) in [
            ("", "a"),
            ("2", "b-20261128"),
            ("b-20261128", "b-20261128"),
            ("b", "b"),
            ("house/a", "a"),
            ("house/c", "house/c"),
        ] {
            assert_eq!(
                offers.parse(answer),
                Ok(NamedModel::Known(reference(expected))),
                "{answer}"
            );
        }
        for id in ["other", "d-4"] {
            assert_eq!(offers.parse(id), Ok(NamedModel::Unlisted(reference(id))));
        }
    }

    #[test]
    fn an_answer_that_names_no_model_has_a_reason() {
        let offers = offers(&["a"]);
        for (answer, reason) in [
            ("0", "There is no number 0."),
            ("2", "There is no number 2."),
            ("two words", "This is no name of a model."),
            ("\u{202e}evil", "This is no name of a model."),
        ] {
            assert_eq!(offers.parse(answer), Err(reason.to_owned()), "{answer:?}");
        }
        assert_eq!(self::offers(&[]).parse(""), Err("Give the name of a model.".to_owned()));
    }

    #[test]
    fn the_list_is_short_and_says_how_many_are_left_out() {
        let ids: Vec<String> = (1..=20).map(|number| format!("m{number}")).collect();
        let offers = offers(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(offers.lines().count(), LISTED);
        assert!(offers.question().contains("enter for m1; q leaves. There are 12 more"));
        assert_eq!(offers.parse("m20"), Ok(NamedModel::Known(reference("m20"))));
    }
}
