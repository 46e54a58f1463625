//! Lookup and validation of keys.

use super::built_in::KeyRule;
use crate::secret::ApiKey;

/// Source of a provider's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// The rule of the provider itself: its variable, or no key.
    BuiltIn,
    /// An environment variable.
    Variable(String),
    /// The configuration file itself.
    Direct(ApiKey),
}

/// Result of the lookup of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyLookup {
    Key(ApiKey),
    /// A key from the credential store, stored for the origin that requests go to.
    Stored(ApiKey),
    /// No key is needed.
    NotNeeded,
    /// A key is needed, but this variable is not set or blank.
    Missing {
        variable: String,
    },
    /// The key cannot be sent, or the store cannot be read.
    Unusable {
        reason: String,
    },
}

impl KeyLookup {
    /// Returns true if there is a key.
    pub(crate) fn is_present(&self) -> bool {
        matches!(self, Self::Key(_) | Self::Stored(_))
    }
}

/// Looks up a key in the configuration or the environment.
pub(crate) fn find(
    source: &KeySource,
    rule: KeyRule,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> KeyLookup {
    let (variable, is_needed) = match (source, rule) {
        (KeySource::Direct(key), _) => return KeyLookup::Key(key.clone()),
        (KeySource::Variable(variable), _) => (variable.as_str(), true),
        (KeySource::BuiltIn, KeyRule::Required(variable)) => (variable, true),
        (KeySource::BuiltIn, KeyRule::Optional(variable)) => (variable, false),
        (KeySource::BuiltIn, KeyRule::None) => return KeyLookup::NotNeeded,
    };
    let found = lookup(variable).filter(|value| !value.trim().is_empty());
    match found.as_deref().map(ApiKey::check) {
        Some(Ok(key)) => KeyLookup::Key(key),
        Some(Err(reason)) => {
            KeyLookup::Unusable { reason: format!("the key in {variable} {reason}") }
        }
        None if is_needed => KeyLookup::Missing { variable: variable.to_owned() },
        None => KeyLookup::NotNeeded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(value: Option<&'static str>) -> impl Fn(&str) -> Option<String> {
        move |_| value.map(str::to_owned)
    }

    #[test]
    fn a_key_is_looked_up_in_its_source() {
        let key = |text| KeyLookup::Key(ApiKey::new(text).unwrap());
        let missing = |variable: &str| KeyLookup::Missing { variable: variable.to_owned() };
        let variable = KeySource::Variable("MY_KEY".to_owned());
        let direct = KeySource::Direct(ApiKey::new("sk-direct").unwrap());
        for (source, rule, value, expected) in [
            (&KeySource::BuiltIn, KeyRule::Required("K"), Some("sk-1"), key("sk-1")),
            (&KeySource::BuiltIn, KeyRule::Required("K"), Some(" sk-1\r\n"), key("sk-1")),
            (&KeySource::BuiltIn, KeyRule::Required("K"), Some("  "), missing("K")),
            (&KeySource::BuiltIn, KeyRule::Required("K"), None, missing("K")),
            (&KeySource::BuiltIn, KeyRule::Optional("K"), None, KeyLookup::NotNeeded),
            (&KeySource::BuiltIn, KeyRule::Optional("K"), Some("sk-1"), key("sk-1")),
            (&KeySource::BuiltIn, KeyRule::None, Some("sk-1"), KeyLookup::NotNeeded),
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
            let KeyLookup::Unusable { reason } = found else { panic!("{text:?}: {found:?}") };
            report.push(format!("{text:?}: {reason}"));
        }
        insta::assert_snapshot!(report.join("\n"));
    }
}
