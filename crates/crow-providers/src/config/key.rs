//! Where a key comes from, and whether it can be sent.

use super::built_in::KeyRule;
use crate::secret::ApiKey;

/// Where a provider's key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// The provider's own rule: a variable that it is known by, or no key at all.
    BuiltIn,
    /// A variable of the environment.
    Variable(String),
    /// The configuration file itself.
    Direct(ApiKey),
}

/// What looking for a key has brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundKey {
    Key(ApiKey),
    /// One that is kept for the place that requests go to.
    Stored(ApiKey),
    /// None is needed.
    NotNeeded,
    /// One is needed and this variable does not hold it.
    Missing {
        variable: String,
    },
    /// What is there cannot be sent.
    Unusable {
        reason: String,
    },
}

impl FoundKey {
    /// Returns whether a key is there.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self, Self::Key(_) | Self::Stored(_))
    }
}

/// Looks for a key.
pub(crate) fn find(
    source: &KeySource,
    rule: KeyRule,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> FoundKey {
    let (variable, is_needed) = match (source, rule) {
        (KeySource::Direct(key), _) => return FoundKey::Key(key.clone()),
        (KeySource::Variable(variable), _) => (variable.as_str(), true),
        (KeySource::BuiltIn, KeyRule::Required(variable)) => (variable, true),
        (KeySource::BuiltIn, KeyRule::Optional(variable)) => (variable, false),
        (KeySource::BuiltIn, KeyRule::None) => return FoundKey::NotNeeded,
    };
    let found = lookup(variable).filter(|value| !value.trim().is_empty());
    match found.as_deref().map(ApiKey::check) {
        Some(Ok(key)) => FoundKey::Key(key),
        Some(Err(reason)) => {
            FoundKey::Unusable { reason: format!("the key in {variable} {reason}") }
        }
        None if is_needed => FoundKey::Missing { variable: variable.to_owned() },
        None => FoundKey::NotNeeded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(value: Option<&'static str>) -> impl Fn(&str) -> Option<String> {
        move |_| value.map(str::to_owned)
    }

    #[test]
    fn a_key_is_looked_for_where_its_source_says() {
        let key = |text| FoundKey::Key(ApiKey::new(text).unwrap());
        let missing = |variable: &str| FoundKey::Missing { variable: variable.to_owned() };
        let variable = KeySource::Variable("MY_KEY".to_owned());
        let direct = KeySource::Direct(ApiKey::new("sk-direct").unwrap());
        for (source, rule, value, expected) in [
            (&KeySource::BuiltIn, KeyRule::Required("K"), Some("sk-1"), key("sk-1")),
            (&KeySource::BuiltIn, KeyRule::Required("K"), Some(" sk-1\r\n"), key("sk-1")),
            (&KeySource::BuiltIn, KeyRule::Required("K"), Some("  "), missing("K")),
            (&KeySource::BuiltIn, KeyRule::Required("K"), None, missing("K")),
            (&KeySource::BuiltIn, KeyRule::Optional("K"), None, FoundKey::NotNeeded),
            (&KeySource::BuiltIn, KeyRule::Optional("K"), Some("sk-1"), key("sk-1")),
            (&KeySource::BuiltIn, KeyRule::None, Some("sk-1"), FoundKey::NotNeeded),
            (&variable, KeyRule::None, None, missing("MY_KEY")),
            (&variable, KeyRule::Required("K"), Some("sk-1"), key("sk-1")),
            (&direct, KeyRule::Required("K"), None, key("sk-direct")),
        ] {
            assert_eq!(find(source, rule, &look(value)), expected, "{source:?} {rule:?}");
        }
    }

    #[test]
    fn a_key_that_cannot_stand_in_a_header_is_refused_without_showing_it() {
        let mut report = Vec::new();
        for text in ["sk-1 sk-2", "sk-1\nsk-2", "sk-\u{1b}[0m", "sk-\u{200b}1", "sk-ä"] {
            let found =
                find(&KeySource::BuiltIn, KeyRule::Required("MY_KEY"), &|_| Some(text.to_owned()));
            let FoundKey::Unusable { reason } = found else { panic!("{text:?}: {found:?}") };
            report.push(format!("{text:?}: {reason}"));
        }
        insta::assert_snapshot!(report.join("\n"));
    }
}
