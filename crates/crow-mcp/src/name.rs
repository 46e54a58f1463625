//! The names under which models call the tools of servers: `mcp__<server>__<tool>`.

use std::collections::BTreeSet;

use crow_core::tool::SOURCED_NAME;

/// Maximum length of a tool name that providers accept.
const LONGEST: usize = 64;
/// Maximum length of the server's part.
const LONGEST_SERVER: usize = 24;
/// Number of hash characters that make a name unique.
const HASH: usize = 6;

/// Returns the server's part of tool names for each server of a session, in their order. No two are equal, ignoring
/// case.
pub(crate) fn server_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let server = |name: &str| {
        let mut words = String::new();
        for char in sanitised(name).chars() {
            // Two underscores end the server's part, so runs are collapsed.
            if char != '_' || !words.ends_with('_') {
                words.push(char);
            }
        }
        shortened(words.trim_matches('_'), name, LONGEST_SERVER)
    };
    names.into_iter().map(|name| unique(&server(name), name, LONGEST_SERVER, &mut taken)).collect()
}

/// Returns the name for the model of each tool of a server. It depends on the set of the server's own names, not on
/// their order, and no two are equal.
pub(crate) fn tool_names(server: &str, tools: &[&str]) -> Vec<String> {
    let start = format!("{SOURCED_NAME}{server}__");
    let room = LONGEST.saturating_sub(start.len());
    // Names that need no change go first, so that no changed name takes theirs.
    let mut order: Vec<usize> = (0..tools.len()).collect();
    let own_name = |index: &usize| tools[*index];
    order.sort_by_key(|index| (sanitised(own_name(index)) != own_name(index), own_name(index)));
    let mut taken = BTreeSet::new();
    let mut names = vec![String::new(); tools.len()];
    for index in order {
        let tool = own_name(&index);
        let name = unique(&shortened(&sanitised(tool), tool, room), tool, room, &mut taken);
        if let Some(slot) = names.get_mut(index) {
            *slot = format!("{start}{name}");
        }
    }
    names
}

/// Replaces each character that providers refuse with an underscore.
fn sanitised(name: &str) -> String {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    name.chars().map(|char| if is_allowed(char) { char } else { '_' }).take(LONGEST * 2).collect()
}

/// Cuts a name that is too long and appends a hash of the original; also for a name without a letter or digit.
fn shortened(name: &str, original: &str, most: usize) -> String {
    let is_empty = !name.chars().any(|char| char.is_ascii_alphanumeric());
    if name.len() <= most && !is_empty { name.to_owned() } else { hashed(name, original, most, 0) }
}

/// Returns the name, or a hashed variant if it is taken (ignoring case), and adds it to `taken`.
fn unique(name: &str, original: &str, most: usize, taken: &mut BTreeSet<String>) -> String {
    let mut candidate = name.to_owned();
    let mut round = 0;
    // The name may occur twice and a hash may collide: each round hashes differently.
    while !taken.insert(candidate.to_ascii_lowercase()) {
        candidate = hashed(name, original, most, round);
        round += 1;
    }
    candidate
}

fn hashed(name: &str, original: &str, most: usize, round: u32) -> String {
    let hash = blake3::hash(format!("{round}\0{original}").as_bytes()).to_hex();
    let start: String = name.chars().take(most.saturating_sub(HASH + 1)).collect();
    let start = start.trim_end_matches('_');
    format!("{start}{}{}", if start.is_empty() { "" } else { "_" }, &hash[..HASH])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_contain_server_and_tool() {
        assert_eq!(server_names(["time", "My Server!"]), ["time", "My_Server"]);
        assert_eq!(
            tool_names("time", &["get_now", "a.b"]),
            ["mcp__time__get_now", "mcp__time__a_b"]
        );
    }

    #[test]
    fn colliding_names_become_unique_in_any_order() {
        let [one, two] = ["get time", "get_time"];
        let (forward, reversed) = (tool_names("t", &[one, two]), tool_names("t", &[two, one]));
        assert_eq!(forward[1], "mcp__t__get_time");
        assert_eq!((&forward[0], &forward[1]), (&reversed[1], &reversed[0]));
        assert_ne!(forward[0], forward[1]);
        let servers = server_names(["a__b", "a_b", "a b"]);
        assert_eq!(servers.iter().collect::<BTreeSet<_>>().len(), 3, "{servers:?}");
    }

    proptest! {
        #[test]
        fn any_names_become_unique_and_acceptable_for_providers(
            servers in proptest::collection::vec("\\PC{0,40}|[ab _-]{0,6}", 1..5),
            tools in proptest::collection::vec("\\PC{0,100}|[ab._ -]{0,4}|a{60,70}", 0..12),
        ) {
            let tools: BTreeSet<String> = tools.into_iter().collect();
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let servers = server_names(servers.iter().map(String::as_str));
            let all: Vec<String> =
                servers.iter().flat_map(|server| tool_names(server, &tools)).collect();
            for name in &all {
                prop_assert!((1..=64).contains(&name.len()), "{name}");
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)));
                let (server, tool) = name.strip_prefix(SOURCED_NAME).unwrap().split_once("__").unwrap();
                prop_assert!(!server.is_empty() && !tool.is_empty(), "{name}");
            }
            let different: BTreeSet<_> = all.iter().map(|name| name.to_ascii_lowercase()).collect();
            prop_assert_eq!(different.len(), all.len());
        }
    }
}
