//! The search of model providers. A small model is asked to search once; the pages are read from its answer.
//!
//! The conversation has nothing to do with it: what was found comes back as the result of an ordinary call, so that each model
//! can use the search of any provider, and nothing has to be sent back in a form of the provider's own.

use crow_text::{one_line, shorten};
use serde_json::{Value, json};

use super::search_service::{SearchHit, SearchQuery, SearchServiceKind, text, with_domains};

/// Maximum tokens of the answer of the model that searches, with its thinking.
const ANSWER_TOKENS: u32 = 16_384;
/// Maximum number of pages, and of citations that are looked at.
const PAGES: usize = 50;
const CITATIONS: usize = 500;
/// Bytes of the excerpts of a page after which no more are added.
const EXCERPT_BYTES: usize = 600;
/// Maximum characters of what a provider says about an error.
const ERROR_CHARS: usize = 200;

/// Returns the path and the body of a search; `None` if the service is no model provider.
pub(super) fn provider_request(
    kind: SearchServiceKind,
    model: &str,
    query: &SearchQuery,
) -> Option<(String, Value)> {
    let task = |words: &str| {
        format!(
            "Search the web once for: {words}\nThen say for each of the {} most useful pages in one or two sentences what it says about that, with a citation of the page.",
            query.most
        )
    };
    match kind {
        SearchServiceKind::Anthropic => {
            let tool =
                json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 1 });
            let body = json!({
                "model": model,
                "max_tokens": ANSWER_TOKENS,
                "messages": [{ "role": "user", "content": task(&query.words) }],
                // Either list is taken, not both. What is left is filtered here.
                "tools": [with_one_list(tool, query)],
            });
            Some(("v1/messages".to_owned(), body))
        }
        SearchServiceKind::OpenAi => {
            let mut tool = json!({ "type": "web_search" });
            if !query.allowed.is_empty() || !query.blocked.is_empty() {
                tool["filters"] = with_one_list(json!({}), query);
            }
            let body = json!({
                "model": model,
                "max_output_tokens": ANSWER_TOKENS,
                "input": task(&query.words),
                "tools": [tool],
                "tool_choice": "required",
                "include": ["web_search_call.action.sources"],
                "store": false,
            });
            Some(("responses".to_owned(), body))
        }
        SearchServiceKind::Gemini => {
            let body = json!({
                "contents": [{ "role": "user", "parts": [{ "text": task(&query.with_operators()) }] }],
                "tools": [{ "google_search": {} }],
                "generationConfig": { "maxOutputTokens": ANSWER_TOKENS },
            });
            Some((format!("v1beta/models/{model}:generateContent"), body))
        }
        SearchServiceKind::Brave
        | SearchServiceKind::Tavily
        | SearchServiceKind::Exa
        | SearchServiceKind::Searxng => None,
    }
}

/// Adds the domains that are allowed, or else those that are blocked.
fn with_one_list(tool: Value, query: &SearchQuery) -> Value {
    let blocked = if query.allowed.is_empty() { &query.blocked[..] } else { &[] };
    with_domains(tool, [("allowed_domains", &query.allowed), ("blocked_domains", blocked)])
}

/// The pages of an answer, each once.
#[derive(Default)]
struct HitList(Vec<SearchHit>);

impl HitList {
    /// Adds a page, or what is new of one.
    fn add(&mut self, url: &str, title: &str, excerpt: &str) -> Option<&mut SearchHit> {
        let known = self.0.iter().position(|hit| hit.url == url);
        if url.is_empty() || (known.is_none() && self.0.len() >= PAGES) {
            return None;
        }
        let index = known.unwrap_or_else(|| {
            let (url, title, excerpt) = (url.to_owned(), String::new(), String::new());
            self.0.push(SearchHit { title, url, excerpt, site: None });
            self.0.len() - 1
        });
        let hit = &mut self.0[index];
        if hit.title.is_empty() {
            title.trim().clone_into(&mut hit.title);
        }
        let excerpt = shorten(excerpt.trim(), EXCERPT_BYTES);
        let has_room = hit.excerpt.len() < EXCERPT_BYTES;
        if has_room && !excerpt.is_empty() && !hit.excerpt.contains(&*excerpt) {
            if !hit.excerpt.is_empty() {
                hit.excerpt.push(' ');
            }
            hit.excerpt.push_str(&excerpt);
        }
        Some(hit)
    }

    fn into_hits(self) -> Vec<SearchHit> {
        let titled = self.0.into_iter().map(|mut hit| {
            if hit.title.is_empty() {
                hit.title.clone_from(&hit.url);
            }
            hit
        });
        titled.collect()
    }
}

/// Reads the answer of a model provider.
///
/// # Errors
/// Fails if nothing was found for another reason than that there is nothing.
pub(super) fn provider_hits(
    kind: SearchServiceKind,
    answer: &Value,
) -> Result<Vec<SearchHit>, String> {
    let mut hits = HitList::default();
    match kind {
        SearchServiceKind::Anthropic => anthropic_hits(answer, &mut hits)?,
        SearchServiceKind::OpenAi => openai_hits(answer, &mut hits),
        SearchServiceKind::Gemini => gemini_hits(answer, &mut hits),
        SearchServiceKind::Brave
        | SearchServiceKind::Tavily
        | SearchServiceKind::Exa
        | SearchServiceKind::Searxng => {}
    }
    match no_hits_reason(kind, answer) {
        Some(reason) if hits.0.is_empty() => Err(reason),
        Some(_) | None => Ok(hits.into_hits()),
    }
}

/// Returns why an answer has no pages, if not because nothing was found: it was refused or cut off, or no search was made.
fn no_hits_reason(kind: SearchServiceKind, answer: &Value) -> Option<String> {
    let told = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str);
    let end = ["/stop_reason", "/candidates/0/finishReason"].into_iter().find_map(told);
    let reason = ["/error/message", "/incomplete_details/reason", "/promptFeedback/blockReason"]
        .into_iter()
        .find_map(told)
        .or(end.filter(|end| !["end_turn", "STOP"].contains(end)));
    if let Some(reason) = reason {
        return Some(format!("the answer of the model has no pages: {}", one_line(reason)));
    }
    let has = |list: &str, name: &str| {
        entries(answer, list).iter().any(|entry| text(entry, "type") == name)
    };
    let has_searched = match kind {
        SearchServiceKind::Anthropic => has("/content", "web_search_tool_result"),
        SearchServiceKind::OpenAi => has("/output", "web_search_call"),
        SearchServiceKind::Gemini => answer.pointer("/candidates/0/groundingMetadata").is_some(),
        SearchServiceKind::Brave
        | SearchServiceKind::Tavily
        | SearchServiceKind::Exa
        | SearchServiceKind::Searxng => true,
    };
    (!has_searched).then(|| "the model answered without a search".to_owned())
}

/// Returns the entries of a list at a JSON pointer; none if there is no list.
fn entries<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The results of the search come as a block; texts cite them.
fn anthropic_hits(answer: &Value, hits: &mut HitList) -> Result<(), String> {
    let mut failure = None;
    for block in entries(answer, "/content") {
        match text(block, "type") {
            "web_search_tool_result" => {
                if let Some(code) = block.pointer("/content/error_code").and_then(Value::as_str) {
                    // A second search is one too many; the pages of the first one are there.
                    failure.get_or_insert_with(|| format!("the search failed: {}", one_line(code)));
                }
                for result in entries(block, "/content") {
                    hits.add(text(result, "url"), text(result, "title"), "");
                }
            }
            "text" => {
                for citation in entries(block, "/citations").iter().take(CITATIONS) {
                    let (url, title) = (text(citation, "url"), text(citation, "title"));
                    hits.add(url, title, text(citation, "cited_text"));
                }
            }
            _ => {}
        }
    }
    match failure {
        Some(failure) if hits.0.is_empty() => Err(failure),
        Some(_) | None => Ok(()),
    }
}

/// Texts have annotations with the place of each citation; the search itself tells all addresses that it read.
fn openai_hits(answer: &Value, hits: &mut HitList) {
    let items = entries(answer, "/output");
    for item in items.iter().filter(|item| text(item, "type") == "message") {
        for part in entries(item, "/content") {
            let whole = text(part, "text");
            for note in entries(part, "/annotations").iter().take(CITATIONS) {
                let place = note.get("start_index").and_then(Value::as_u64).unwrap_or(0);
                let place = usize::try_from(place).unwrap_or(usize::MAX);
                hits.add(
                    own_address(text(note, "url")),
                    text(note, "title"),
                    line_at(whole, place),
                );
            }
        }
    }
    for item in items.iter().filter(|item| text(item, "type") == "web_search_call") {
        for source in entries(item, "/action/sources") {
            hits.add(own_address(text(source, "url")), text(source, "title"), "");
        }
    }
}

/// Returns an address without the mark of the search that found it.
fn own_address(url: &str) -> &str {
    let marks = ["?utm_source=openai", "&utm_source=openai"];
    marks.iter().find_map(|mark| url.strip_suffix(mark)).unwrap_or(url)
}

/// Returns the line with the character of this number.
fn line_at(whole: &str, place: usize) -> &str {
    let at = whole.char_indices().nth(place).map_or(whole.len(), |(at, _)| at);
    let start = whole[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = whole[at..].find('\n').map_or(whole.len(), |length| at + length);
    &whole[start..end]
}

/// Chunks are pages, by addresses that lead on to them; supports are what the answer says of them.
fn gemini_hits(answer: &Value, hits: &mut HitList) {
    const METADATA: &str = "/candidates/0/groundingMetadata";
    const REDIRECT: &str = "https://vertexaisearch.cloud.google.com/";
    let chunks = entries(answer, &format!("{METADATA}/groundingChunks"));
    let supports = entries(answer, &format!("{METADATA}/groundingSupports"));
    for chunk in chunks.iter().take(PAGES) {
        let Some(page) = chunk.get("web") else { continue };
        let (url, title) = (text(page, "uri"), text(page, "title"));
        // The title of a page without a domain is that.
        let is_domain = title.contains('.') && !title.contains(char::is_whitespace);
        let site = match text(page, "domain") {
            "" if is_domain => Some(title),
            "" => None,
            domain => Some(domain),
        };
        if let Some(hit) = hits.add(url, title, "")
            && url.starts_with(REDIRECT)
        {
            hit.site = site.map(str::to_ascii_lowercase);
        }
    }
    for support in supports.iter().take(CITATIONS) {
        let said = support.pointer("/segment/text").and_then(Value::as_str).unwrap_or_default();
        for number in entries(support, "/groundingChunkIndices").iter().take(PAGES) {
            let index = number.as_u64().and_then(|index| usize::try_from(index).ok());
            if let Some(page) = index.and_then(|index| chunks.get(index)?.get("web")) {
                hits.add(text(page, "uri"), text(page, "title"), said);
            }
        }
    }
}

/// Returns what a provider says about an error, in one short line.
pub(super) fn provider_error(bytes: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(bytes).ok()?;
    // Gemini sends a list with one answer from some of its addresses.
    let message =
        answer.pointer("/error/message").or_else(|| answer.pointer("/0/error/message"))?;
    let message = one_line(message.as_str()?);
    Some(message.chars().take(ERROR_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(title: &str, url: &str, excerpt: &str) -> SearchHit {
        let (title, url) = (title.to_owned(), url.to_owned());
        SearchHit { title, url, excerpt: excerpt.to_owned(), site: None }
    }

    #[test]
    fn results_and_citations_of_anthropic_are_joined() {
        let answer = json!({"content": [
            {"type": "text", "text": "I search."},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "crow"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
                {"type": "web_search_result", "url": "https://a.test/", "title": "A", "encrypted_content": "x"},
                {"type": "web_search_result", "url": "https://b.test/", "title": "B", "encrypted_content": "y"},
            ]},
            {"type": "text", "text": "B says it.", "citations": [
                {"type": "web_search_result_location", "url": "https://b.test/", "title": "B", "cited_text": "It is so."},
                {"type": "web_search_result_location", "url": "https://b.test/", "title": "B", "cited_text": "It is so."},
            ]},
        ]});
        let hits = provider_hits(SearchServiceKind::Anthropic, &answer).unwrap();
        assert_eq!(
            hits,
            [hit("A", "https://a.test/", ""), hit("B", "https://b.test/", "It is so.")]
        );
    }

    #[test]
    fn a_failed_search_of_anthropic_is_an_error() {
        let error =
            json!({"type": "web_search_tool_result_error", "error_code": "too_many_requests"});
        let answer = json!({"content": [{"type": "web_search_tool_result", "content": error}]});
        let error = provider_hits(SearchServiceKind::Anthropic, &answer).unwrap_err();
        assert_eq!(error, "the search failed: too_many_requests");
    }

    #[test]
    fn citations_of_openai_come_first_with_their_line() {
        let said = "Zwölf Krähen.\nCrows are clever (a.test).\nEnd.";
        let answer = json!({"output": [
            {"type": "web_search_call", "status": "completed", "action": {"type": "search", "sources": [
                {"type": "url", "url": "https://b.test/"},
                {"type": "url", "url": "https://a.test/x?utm_source=openai"},
            ]}},
            {"type": "message", "content": [{"type": "output_text", "text": said, "annotations": [
                {"type": "url_citation", "url": "https://a.test/x?utm_source=openai", "title": "A",
                 "start_index": 32, "end_index": 40},
            ]}]},
        ]});
        let hits = provider_hits(SearchServiceKind::OpenAi, &answer).unwrap();
        assert_eq!(
            hits,
            [
                hit("A", "https://a.test/x", "Crows are clever (a.test)."),
                hit("https://b.test/", "https://b.test/", ""),
            ]
        );
    }

    #[test]
    fn pages_of_gemini_have_the_site_that_their_address_leads_to() {
        let answer = json!({"candidates": [{"groundingMetadata": {
            "groundingChunks": [
                {"web": {"uri": "https://vertexaisearch.cloud.google.com/r/1", "title": "Docs.rs"}},
                {"retrievedContext": {}},
                {"web": {"uri": "https://vertexaisearch.cloud.google.com/r/2", "title": "The title", "domain": "b.test"}},
            ],
            "groundingSupports": [
                {"segment": {"text": "Both say it."}, "groundingChunkIndices": [0, 2]},
                {"segment": {"text": "One more."}, "groundingChunkIndices": [2]},
            ],
        }}]});
        let hits = provider_hits(SearchServiceKind::Gemini, &answer).unwrap();
        let site = |site: &str, hit: SearchHit| SearchHit { site: Some(site.to_owned()), ..hit };
        assert_eq!(
            hits,
            [
                site(
                    "docs.rs",
                    hit("Docs.rs", "https://vertexaisearch.cloud.google.com/r/1", "Both say it.")
                ),
                site(
                    "b.test",
                    hit(
                        "The title",
                        "https://vertexaisearch.cloud.google.com/r/2",
                        "Both say it. One more."
                    )
                ),
            ]
        );
    }

    #[test]
    fn answers_of_another_form_are_errors() {
        let kinds =
            [SearchServiceKind::Anthropic, SearchServiceKind::OpenAi, SearchServiceKind::Gemini];
        for kind in kinds {
            for answer in
                [json!(null), json!([]), json!({"content": 1, "output": [1], "candidates": {}})]
            {
                assert!(provider_hits(kind, &answer).is_err());
            }
        }
        assert_eq!(line_at("", 7), "");
    }

    #[test]
    fn a_second_search_that_fails_takes_nothing_from_the_first() {
        let found = json!([{"type": "web_search_result", "url": "https://a.test/", "title": "A"}]);
        let error =
            json!({"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"});
        let block = |content| json!({"type": "web_search_tool_result", "content": content});
        let answer = json!({"content": [block(found), block(error)], "stop_reason": "end_turn"});
        let hits = provider_hits(SearchServiceKind::Anthropic, &answer).unwrap();
        assert_eq!(hits, [hit("A", "https://a.test/", "")]);
    }

    #[test]
    fn an_answer_without_pages_says_why() {
        let searched = json!({"type": "web_search_call", "action": {"sources": []}});
        for (kind, answer, expected) in [
            (SearchServiceKind::OpenAi, json!({"output": [searched]}), None),
            (
                SearchServiceKind::OpenAi,
                json!({"output": [], "incomplete_details": {"reason": "max_output_tokens"}}),
                Some("the answer of the model has no pages: max_output_tokens"),
            ),
            (
                SearchServiceKind::Gemini,
                json!({"candidates": [{"finishReason": "SAFETY"}]}),
                Some("the answer of the model has no pages: SAFETY"),
            ),
            (
                SearchServiceKind::Anthropic,
                json!({"content": [{"type": "text", "text": "I know."}], "stop_reason": "end_turn"}),
                Some("the model answered without a search"),
            ),
        ] {
            let result = provider_hits(kind, &answer);
            assert_eq!(result.err().as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn an_answer_of_any_size_gives_few_and_short_pages() {
        let line = "x".repeat(100_000);
        let note = |number: usize| json!({"type": "url_citation", "url": format!("https://a.test/{number}"), "start_index": 1});
        let notes: Vec<_> = (0..2_000).map(note).collect();
        let part = json!({"type": "output_text", "text": line, "annotations": notes});
        let answer = json!({"output": [{"type": "message", "content": [part]}]});
        let hits = provider_hits(SearchServiceKind::OpenAi, &answer).unwrap();
        assert!(
            hits.len() == PAGES && hits.iter().all(|hit| hit.excerpt.len() <= EXCERPT_BYTES + 3)
        );
    }

    #[test]
    fn domains_are_sent_in_one_list() {
        let query = SearchQuery {
            words: "crow".to_owned(),
            most: 5,
            allowed: vec!["a.test".to_owned()],
            blocked: vec!["b.test".to_owned()],
        };
        let (path, body) = provider_request(SearchServiceKind::Anthropic, "m", &query).unwrap();
        assert_eq!(
            (path.as_str(), &body["tools"][0]["allowed_domains"]),
            ("v1/messages", &json!(["a.test"]))
        );
        assert!(body["tools"][0].get("blocked_domains").is_none());
        let (_, body) = provider_request(SearchServiceKind::OpenAi, "m", &query).unwrap();
        assert_eq!(body["tools"][0]["filters"], json!({"allowed_domains": ["a.test"]}));
        let (path, body) = provider_request(SearchServiceKind::Gemini, "m", &query).unwrap();
        assert_eq!(path, "v1beta/models/m:generateContent");
        assert!(body.to_string().contains("crow site:a.test -site:b.test"), "{body}");
    }
}
