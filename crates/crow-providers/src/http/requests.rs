//! Requests other than those to models, sent by the same client over the same connections.

use async_trait::async_trait;
use crow_core::capability::{Http, HttpError, HttpMethod, HttpRequest, HttpResponse};
use futures_util::StreamExt as _;
use reqwest::{
    Method, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::HttpClient;

#[async_trait]
impl Http for HttpClient {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let HttpRequest { method, url, headers, body } = request;
        let url = address(&url)?;
        let client = self.for_url(&url).await;
        let client = client.map_err(|error| HttpError::Request(error.to_string()))?;
        let method = match method {
            HttpMethod::Get => Method::GET,
            HttpMethod::Post => Method::POST,
            HttpMethod::Delete => Method::DELETE,
        };
        let mut request = client.request(method, url).headers(header_map(&headers)?);
        if !body.is_empty() {
            request = request.body(body);
        }
        let response = request.send().await.map_err(failed)?;
        let texts = response.headers().iter();
        let headers = texts
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect();
        let status = response.status().as_u16();
        let body = response.bytes_stream().map(|piece| match piece {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(failed(error)),
        });
        Ok(HttpResponse { status, headers, body: Box::pin(body) })
    }
}

fn address(text: &str) -> Result<Url, HttpError> {
    let invalid = |why: &str| HttpError::Request(format!("its address {why}"));
    let url = Url::parse(text).map_err(|error| invalid(&format!("is invalid: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(invalid("begins with neither http:// nor https://")),
    }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        // The value may be a secret.
        let invalid = || HttpError::Request(format!("the header {name} cannot be sent"));
        let name = name.parse::<HeaderName>().map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

/// Describes a failure with its causes, without the address, which may contain a secret.
fn failed(error: reqwest::Error) -> HttpError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    if error.is_connect() {
        HttpError::Connect(text)
    } else if error.is_builder() {
        HttpError::Request(text)
    } else {
        HttpError::Broken(text)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    fn request(url: String) -> HttpRequest {
        let headers = vec![("x-key".to_owned(), "hunter2".to_owned())];
        HttpRequest { method: HttpMethod::Post, url, headers, body: b"hello".to_vec() }
    }

    #[tokio::test]
    async fn the_body_of_an_answer_is_streamed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"hello") {
                stream.read_buf(&mut seen).await.unwrap();
            }
            let head =
                b"HTTP/1.1 418 Teapot\r\nX-A: b\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";
            stream.write_all(head).await.unwrap();
            (String::from_utf8(seen).unwrap().to_ascii_lowercase(), stream)
        };
        let ask = async {
            let client = HttpClient::default();
            let mut answer = client.send(request(format!("http://{address}/x"))).await.unwrap();
            assert_eq!(answer.status, 418);
            assert!(answer.headers.contains(&("x-a".to_owned(), "b".to_owned())));
            // The second piece has not been sent yet.
            assert_eq!(answer.body.next().await.unwrap().unwrap(), b"one");
            answer
        };
        let ((seen, stream), mut answer) = tokio::join!(serve, ask);
        assert!(seen.starts_with("post /x http/1.1") && seen.contains("x-key: hunter2"), "{seen}");
        drop(stream);
        assert!(matches!(answer.body.next().await, Some(Err(HttpError::Broken(_)))));
    }

    #[tokio::test]
    async fn an_unreachable_server_is_a_connect_error_without_secrets() {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}/?token=hunter2");
        let error = HttpClient::default().send(request(url)).await.unwrap_err();
        assert!(matches!(error, HttpError::Connect(_)), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[tokio::test]
    async fn an_invalid_request_is_refused_without_showing_values() {
        for url in ["ftp://a", "nothing"] {
            let error = HttpClient::default().send(request(url.to_owned())).await.unwrap_err();
            assert!(matches!(error, HttpError::Request(_)), "{error}");
        }
        let headers = vec![("a".to_owned(), "hunter2\n".to_owned())];
        let request = HttpRequest { headers, ..request("http://127.0.0.1:1".to_owned()) };
        let error = HttpClient::default().send(request).await.unwrap_err();
        assert_eq!(error, HttpError::Request("the header a cannot be sent".to_owned()));
    }
}
