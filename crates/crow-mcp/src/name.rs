//! The names by which models call the tools of servers.

use std::collections::BTreeSet;

use crow_core::tool::SOURCED_NAME;

/// The most that providers take.
const LONGEST: usize = 64;
/// The most characters of the server's part.
const LONGEST_SERVER: usize = 24;
/// The number of characters of a hash that tells equal names apart.
const HASH: usize = 6;

/// Names the servers of a session, in their order: each with a part of the names of its tools that no other one has.
pub(crate) fn server_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let server = |name: &str| {
        let mut words = String::new();
        for char in sanitised(name).chars() {
            // Two underscores end the server's part.
            if char != '_' || !words.ends_with('_') {
                words.push(char);
            }
        }
        shortened(words.trim_matches('_'), name, LONGEST_SERVER)
    };
    names.into_iter().map(|name| unique(&server(name), name, LONGEST_SERVER, &mut taken)).collect()
}

/// Names the tools of a server for the model. Each name depends on the server's own names alone, not on their order, and no
/// two are the same.
pub(crate) fn tool_names(server: &str, tools: &[&str]) -> Vec<String> {
    let start = format!("{SOURCED_NAME}{server}__");
    let room = LONGEST.saturating_sub(start.len());
    // Tools whose name needs no change go first, so that no other one takes it.
    let mut order: Vec<usize> = (0..tools.len()).collect();
    let own = |index: &usize| tools.get(*index).copied().unwrap_or_default();
    order.sort_by_key(|index| (sanitised(own(index)) != own(index), own(index)));
    let mut taken = BTreeSet::new();
    let mut names = vec![String::new(); tools.len()];
    for index in order {
        let tool = own(&index);
        let name = unique(&shortened(&sanitised(tool), tool, room), tool, room, &mut taken);
        if let Some(slot) = names.get_mut(index) {
            *slot = format!("{start}{name}");
        }
    }
    names
}

/// Returns the name with an underscore in place of what providers do not take.
fn sanitised(name: &str) -> String {
    let kept = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    name.chars().map(|char| if kept(char) { char } else { '_' }).take(LONGEST * 2).collect()
}

/// Cuts a name that is too long, and tells it apart from others with the same beginning.
fn shortened(name: &str, whole: &str, most: usize) -> String {
    let is_empty = !name.chars().any(|char| char.is_ascii_alphanumeric());
    if name.len() <= most && !is_empty { name.to_owned() } else { hashed(name, whole, most, 0) }
}

fn unique(name: &str, whole: &str, most: usize, taken: &mut BTreeSet<String>) -> String {
    let mut candidate = name.to_owned();
    let mut round = 0;
    // The same name twice, and whatever a hash may hit: each round gives another one.
    while !taken.insert(candidate.to_ascii_lowercase()) {
        candidate = hashed(name, whole, most, round);
        round += 1;
    }
    candidate
}

fn hashed(name: &str, whole: &str, most: usize, round: u32) -> String {
    let hash = blake3::hash(format!("{round}\0{whole}").as_bytes()).to_hex();
    let start: String = name.chars().take(most.saturating_sub(HASH + 1)).collect();
    let start = start.trim_end_matches('_');
    format!("{start}{}{}", if start.is_empty() { "" } else { "_" }, hash.get(..HASH).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_say_server_and_tool() {
        assert_eq!(server_names(["time", "My Server!"]), ["time", "My_Server"]);
        assert_eq!(
            tool_names("time", &["get_now", "a.b"]),
            ["mcp__time__get_now", "mcp__time__a_b"]
        );
    }

    #[test]
    fn names_that_would_be_the_same_are_told_apart_whatever_their_order() {
        let [one, two] = ["get time", "get_time"];
        let (there, back) = (tool_names("t", &[one, two]), tool_names("t", &[two, one]));
        assert_eq!(there[1], "mcp__t__get_time");
        assert_eq!((&there[0], &there[1]), (&back[1], &back[0]));
        assert_ne!(there[0], there[1]);
        let servers = server_names(["a__b", "a_b", "a b"]);
        assert_eq!(servers.iter().collect::<BTreeSet<_>>().len(), 3, "{servers:?}");
    }

    proptest! {
        #[test]
        fn whatever_servers_call_their_tools_providers_take_the_names_and_no_two_are_the_same(
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
