//! Access control: the middleware that checks Host, Origin and token, and adds security headers.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use crow_runtime::{AccessToken, is_loopback_host};

use crate::error::ApiError;

/// Paths below this need the token.
pub(crate) const API: &str = "/api/";

/// Rules of access to the server.
#[derive(Debug, Clone)]
pub struct AccessRules {
    /// The token that the page sends.
    pub token: AccessToken,
    /// Names, beside those of this machine, under which a proxy of the user makes the server available, such as
    /// `laptop.example.ts.net`, without a port.
    pub host_names: Vec<String>,
}

/// Content security policy of the page: scripts, styles, images and requests of its own origin only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Middleware that refuses requests without access, and restricts what pages may do with the responses.
pub(crate) async fn admit(
    State(rules): State<Arc<AccessRules>>,
    request: Request,
    next: Next,
) -> Response {
    let is_api = request.uri().path().starts_with(API);
    let mut response = match rules.refusal(is_api, request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

impl AccessRules {
    /// Returns why a request is refused, if it is.
    fn refusal(&self, is_api: bool, headers: &HeaderMap) -> Option<ApiError> {
        let text =
            |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        // A page of the web can reach this address under a name of its own domain.
        let host = text(header::HOST).unwrap_or_default();
        if !self.is_own_host(host) {
            let message = "the server is not known under this host name";
            let error = ApiError::new(StatusCode::FORBIDDEN, message);
            return Some(error.hint("`crow-agent serve --host-name NAME` makes it known"));
        }
        if !is_api {
            return None;
        }
        // Pages of other origins cannot send the token. This says so before they try.
        let is_own_origin = text(header::ORIGIN).is_none_or(|origin| {
            let (_, of_origin) = origin.split_once("://").unwrap_or_default();
            of_origin.eq_ignore_ascii_case(host)
        });
        if !is_own_origin {
            let message = "pages of another origin are refused";
            return Some(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        let presented = text(header::AUTHORIZATION).unwrap_or_default();
        let presented = presented.strip_prefix("Bearer ").unwrap_or_default();
        (!self.token.matches(presented))
            .then(|| ApiError::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong"))
    }

    fn is_own_host(&self, host: &str) -> bool {
        let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
        is_loopback_host(host) || self.host_names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn status(is_api: bool, list: &[(HeaderName, &str)]) -> Option<u16> {
        let rules = AccessRules {
            token: AccessToken::new(TOKEN).unwrap(),
            host_names: vec!["laptop.example".to_owned()],
        };
        let headers = list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        let refusal = rules.refusal(is_api, &headers.collect());
        refusal.map(|refusal| refusal.into_response().status().as_u16())
    }

    #[test]
    fn the_page_is_served_under_names_of_this_machine_and_of_the_users_proxies() {
        for host in
            ["localhost:8421", "127.0.0.1", "[::1]:1", "laptop.example", "LAPTOP.example:443"]
        {
            assert_eq!(status(false, &[(header::HOST, host)]), None, "{host}");
        }
        for host in ["", "evil.example", "laptop.example.evil.example", "10.0.0.1:8421"] {
            assert_eq!(status(false, &[(header::HOST, host)]), Some(403), "{host}");
        }
        assert_eq!(status(false, &[]), Some(403));
    }

    #[test]
    fn the_interface_needs_the_token_and_no_foreign_origin() {
        let host = (header::HOST, "localhost:8421");
        let bearer = format!("Bearer {TOKEN}");
        let token = (header::AUTHORIZATION, bearer.as_str());
        assert_eq!(status(true, std::slice::from_ref(&host)), Some(401));
        assert_eq!(status(true, &[host.clone(), (header::AUTHORIZATION, "Bearer 1")]), Some(401));
        assert_eq!(status(true, &[host.clone(), (header::AUTHORIZATION, TOKEN)]), Some(401));
        assert_eq!(status(true, &[host.clone(), token.clone()]), None);
        for (origin, expected) in [
            ("http://localhost:8421", None),
            ("http://localhost:8422", Some(403)),
            ("https://evil.example", Some(403)),
            ("null", Some(403)),
            ("", Some(403)),
        ] {
            let headers = [host.clone(), token.clone(), (header::ORIGIN, origin)];
            assert_eq!(status(true, &headers), expected, "{origin}");
        }
    }
}
