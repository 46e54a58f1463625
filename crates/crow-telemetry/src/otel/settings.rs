//! The settings of the exporter, from the variables that the OpenTelemetry specification names.

use std::time::Duration;

use super::{ContentCapture, GenAiConventions};

/// Default length of the queue, in spans.
const QUEUE: usize = 2_048;
/// Default number of spans in a request.
const BATCH: usize = 512;

/// Least time between two exports of metrics.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);
/// Values that ask for content; anything else does not.
const CAPTURES: [&str; 4] = ["true", "1", "span_only", "span_and_event"];

/// The protocols that are spoken, in words.
const SPOKEN: &str =
    if cfg!(feature = "grpc") { "http/protobuf and grpc are" } else { "http/protobuf is" };

/// How telemetry is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Messages of Protocol Buffers over HTTP. The address is that of the signal.
    #[default]
    HttpProtobuf,
    /// Calls over gRPC. The address is that of the collector.
    #[cfg(feature = "grpc")]
    Grpc,
}

/// The variables of a signal.
struct SignalVariables {
    path: &'static str,
    endpoint: &'static str,
    headers: &'static str,
    protocol: &'static str,
    exporter: &'static str,
}

const TRACES: SignalVariables = SignalVariables {
    path: "v1/traces",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    exporter: "OTEL_TRACES_EXPORTER",
};
const METRICS: SignalVariables = SignalVariables {
    path: "v1/metrics",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    exporter: "OTEL_METRICS_EXPORTER",
};
const LOGS: SignalVariables = SignalVariables {
    path: "v1/logs",
    endpoint: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
    exporter: "OTEL_LOGS_EXPORTER",
};

/// Where telemetry is sent, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct OtelSettings {
    /// Where spans are sent, if they are.
    pub traces: Option<OtelEndpoint>,
    /// Where metrics are sent, if they are.
    pub metrics: Option<OtelEndpoint>,
    /// Where logs are sent, if they are.
    pub logs: Option<OtelEndpoint>,
    /// How long a request may take.
    pub timeout: Duration,
    /// How long spans wait for others before they are sent.
    pub delay: Duration,
    /// The length of the queue, in spans. More are dropped, and counted.
    pub queue: usize,
    /// The most spans of a request.
    pub batch: usize,
    /// Time between two exports of metrics.
    pub metrics_interval: Duration,
    /// Attributes of the program besides its own.
    pub resource: Vec<(String, String)>,
    /// Which part of the traces is sent, from 0 to 1, by their ids.
    pub sampled: f64,
    /// The names that are used.
    pub conventions: GenAiConventions,
    /// Capture of content.
    pub content: ContentCapture,
}

/// Where a signal is sent.
#[derive(Clone, PartialEq, Eq)]
pub struct OtelEndpoint {
    /// The address.
    pub url: String,
    /// How it is sent.
    pub protocol: OtlpProtocol,
    /// The headers; a value may be a secret.
    pub headers: Vec<(String, String)>,
}

impl OtelEndpoint {
    /// Returns the host and the port, without what may be a password in the address.
    pub fn server_name(&self) -> String {
        match super::conventions::server(&self.url) {
            Some((host, Some(port))) => format!("{host}:{port}"),
            Some((host, None)) => host,
            None => String::new(),
        }
    }
}

/// Prints neither values of headers nor what may be a password in the address.
impl std::fmt::Debug for OtelEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        let server = super::conventions::server(&self.url);
        f.debug_struct("OtelEndpoint")
            .field("server", &server)
            .field("protocol", &self.protocol)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// Error: a variable of the exporter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtelSettingsError {
    /// The variable.
    pub variable: &'static str,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl std::fmt::Display for OtelSettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.variable, self.message)
    }
}

impl std::error::Error for OtelSettingsError {}

impl OtelSettings {
    /// Reads the variables `OTEL_…`. `variable` returns `None` for those that are unset or empty. Returns `None` unless an
    /// endpoint is set: nothing is sent to a default address.
    ///
    /// # Errors
    /// Fails for a protocol that is not spoken, and for values that are no numbers, addresses or pairs.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OtelSettingsError> {
        let is_set = |name: &str, value: &str| {
            variable(name).is_some_and(|given| given.trim().eq_ignore_ascii_case(value))
        };
        if is_set("OTEL_SDK_DISABLED", "true") {
            return Ok(None);
        }
        // 1) The addresses, with their headers.
        let general = url(&variable, "OTEL_EXPORTER_OTLP_ENDPOINT")?;
        let common = pairs(&variable, "OTEL_EXPORTER_OTLP_HEADERS")?;
        let common_protocol = protocol(&variable, "OTEL_EXPORTER_OTLP_PROTOCOL")?;
        let endpoint = |signal: &SignalVariables| {
            let protocol = protocol(&variable, signal.protocol)?.or(common_protocol);
            let protocol = protocol.unwrap_or_default();
            let joined = |base: &String| match protocol {
                OtlpProtocol::HttpProtobuf => {
                    format!("{}/{}", base.trim_end_matches('/'), signal.path)
                }
                #[cfg(feature = "grpc")]
                OtlpProtocol::Grpc => base.clone(),
            };
            let url = url(&variable, signal.endpoint)?.or_else(|| general.as_ref().map(joined));
            // Those of a signal stand in place of the common ones with the same names.
            let mut headers = pairs(&variable, signal.headers)?;
            for (name, value) in &common {
                if headers.iter().all(|(own, _)| !own.eq_ignore_ascii_case(name)) {
                    headers.push((name.clone(), value.clone()));
                }
            }
            let url = url.filter(|_| !is_set(signal.exporter, "none"));
            Ok(url.map(|url| OtelEndpoint { url, protocol, headers }))
        };
        let (traces, metrics, logs) = (endpoint(&TRACES)?, endpoint(&METRICS)?, endpoint(&LOGS)?);
        if traces.is_none() && metrics.is_none() && logs.is_none() {
            return Ok(None);
        }
        // 2) How to send.
        let mut resource = pairs(&variable, "OTEL_RESOURCE_ATTRIBUTES")?;
        if let Some(name) = variable("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        let millis =
            |name, default| Ok(Duration::from_millis(number(&variable, name)?.unwrap_or(default)));
        let size = |name, default: usize| {
            let given = number(&variable, name)?;
            Ok(given.map_or(default, |given| {
                usize::try_from(given).unwrap_or(default).clamp(1, 65_536)
            }))
        };
        let queue = size("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE)?;
        // 3) What to send.
        let is_latest = variable("OTEL_SEMCONV_STABILITY_OPT_IN").is_some_and(|given| {
            given.split(',').any(|part| part.trim() == "gen_ai_latest_experimental")
        });
        let capture = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        let is_captured = capture
            .is_some_and(|given| CAPTURES.contains(&given.trim().to_ascii_lowercase().as_str()));
        Ok(Some(Self {
            traces,
            metrics,
            logs,
            timeout: millis("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)?,
            delay: millis("OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
            queue,
            batch: size("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH)?.min(queue),
            metrics_interval: millis("OTEL_METRIC_EXPORT_INTERVAL", 60_000)?.max(LEAST_INTERVAL),
            resource,
            sampled: sampled(&variable)?,
            conventions: if is_latest { GenAiConventions::Latest } else { GenAiConventions::V1_41 },
            content: if is_captured { ContentCapture::Captured } else { ContentCapture::LeftOut },
        }))
    }
}

type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

fn url(variable: Variable<'_>, name: &'static str) -> Result<Option<String>, OtelSettingsError> {
    let Some(given) = variable(name) else { return Ok(None) };
    let given = given.trim().to_owned();
    let is_web = ["http://", "https://"].iter().any(|scheme| given.starts_with(scheme));
    if !is_web || super::conventions::server(&given).is_none() {
        let message =
            format!("\"{given}\" is no http or https address such as http://127.0.0.1:4318");
        return Err(OtelSettingsError { variable: name, message });
    }
    Ok(Some(given))
}

/// Reads a protocol.
fn protocol(
    variable: Variable<'_>,
    name: &'static str,
) -> Result<Option<OtlpProtocol>, OtelSettingsError> {
    let Some(given) = variable(name) else { return Ok(None) };
    match given.trim() {
        "http/protobuf" => Ok(Some(OtlpProtocol::HttpProtobuf)),
        #[cfg(feature = "grpc")]
        "grpc" => Ok(Some(OtlpProtocol::Grpc)),
        #[cfg(not(feature = "grpc"))]
        "grpc" => {
            let message = "grpc needs a build with the feature `otlp-grpc`; http/protobuf does not";
            Err(OtelSettingsError { variable: name, message: message.to_owned() })
        }
        _ => Err(OtelSettingsError {
            variable: name,
            message: format!("\"{given}\" is not spoken here; {SPOKEN}"),
        }),
    }
}

fn number(variable: Variable<'_>, name: &'static str) -> Result<Option<u64>, OtelSettingsError> {
    let Some(given) = variable(name) else { return Ok(None) };
    given.trim().parse().map(Some).map_err(|_| OtelSettingsError {
        variable: name,
        message: format!("\"{given}\" is no whole number"),
    })
}

/// Parses `key=value,key=value`. Values may be percent-encoded.
fn pairs(
    variable: Variable<'_>,
    name: &'static str,
) -> Result<Vec<(String, String)>, OtelSettingsError> {
    let given = variable(name).unwrap_or_default();
    let parts = given.split(',').filter(|part| !part.trim().is_empty());
    parts
        .enumerate()
        .map(|(index, part)| match part.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), percent_decoded(value.trim()))),
            // The value may be a secret: it is not repeated.
            None => Err(OtelSettingsError {
                variable: name,
                message: format!("entry {} is not of the form key=value", index + 1),
            }),
        })
        .collect()
}

/// Decodes `%20` and the like. What is no valid code stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        if let (b'%', Some(byte)) = (first, byte) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn sampled(variable: Variable<'_>) -> Result<f64, OtelSettingsError> {
    let sampler = variable("OTEL_TRACES_SAMPLER").unwrap_or_else(|| "always_on".to_owned());
    match sampler.trim().trim_start_matches("parentbased_") {
        "always_on" => Ok(1.0),
        "always_off" => Ok(0.0),
        "traceidratio" => {
            let argument = variable("OTEL_TRACES_SAMPLER_ARG").unwrap_or_else(|| "1".to_owned());
            let ratio = argument.trim().parse::<f64>().ok();
            ratio.filter(|ratio| (0.0..=1.0).contains(ratio)).ok_or_else(|| OtelSettingsError {
                variable: "OTEL_TRACES_SAMPLER_ARG",
                message: format!("\"{argument}\" is not between 0 and 1"),
            })
        }
        other => Err(OtelSettingsError {
            variable: "OTEL_TRACES_SAMPLER",
            message: format!(
                "\"{other}\" is not known; always_on, always_off and traceidratio are"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(variables: &[(&str, &str)]) -> Result<Option<OtelSettings>, OtelSettingsError> {
        OtelSettings::from_variables(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_is_sent_without_an_endpoint_or_when_it_is_disabled() {
        assert_eq!(parse(&[]), Ok(None));
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        assert_eq!(parse(&[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]), Ok(None));
        let off = ["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"];
        let [traces, metrics, logs] = off.map(|name| (name, "none"));
        assert_eq!(parse(&[endpoint, traces, metrics, logs]), Ok(None));
    }

    #[test]
    fn the_variables_of_the_specification_are_read() {
        let settings = parse(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otel.example.org/base/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc, x-team = a=b"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=own"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "off"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=x,deployment.environment=test"),
            ("OTEL_SERVICE_NAME", "crow-ci"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
            ("OTEL_SEMCONV_STABILITY_OPT_IN", "http,gen_ai_latest_experimental"),
        ]);
        let settings = settings.unwrap().unwrap();
        let traces = settings.traces.unwrap();
        assert_eq!(traces.url, "https://otel.example.org/base/v1/traces");
        let headers = |list: [(&str, &str); 2]| list.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(traces.headers, headers([("authorization", "own"), ("x-team", "a=b")]));
        let common = headers([("authorization", "Bearer abc"), ("x-team", "a=b")]);
        assert_eq!(settings.metrics.unwrap().headers, common);
        assert!(!format!("{:?}", settings.logs).contains("abc"));
        let resource = [("deployment.environment", "test"), ("service.name", "crow-ci")];
        assert_eq!(settings.resource, resource.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert!((settings.sampled - 0.25).abs() < f64::EPSILON);
        assert_eq!(settings.metrics_interval, LEAST_INTERVAL);
        assert_eq!((settings.queue, settings.batch), (100, 100));
        assert_eq!(settings.conventions, GenAiConventions::Latest);
        assert_eq!(settings.content, ContentCapture::LeftOut);
    }

    #[test]
    fn grpc_is_spoken_where_it_is_compiled_in() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");
        let general = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let logs = ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf");
        let settings = parse(&[endpoint, general, logs]);
        #[cfg(feature = "grpc")]
        {
            let settings = settings.unwrap().unwrap();
            let traces = settings.traces.unwrap();
            assert_eq!((traces.url.as_str(), traces.protocol), (endpoint.1, OtlpProtocol::Grpc));
            let logs = settings.logs.unwrap();
            assert_eq!(logs.url, "http://127.0.0.1:4317/v1/logs");
            assert_eq!(logs.protocol, OtlpProtocol::HttpProtobuf);
        }
        #[cfg(not(feature = "grpc"))]
        assert!(settings.unwrap_err().message.contains("otlp-grpc"));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "grpcs://collector.example.org:443"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "thrift"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
        ] {
            let error = parse(&[(variable, value), endpoint]).unwrap_err();
            assert_eq!(error.variable, variable);
            assert!(!error.to_string().contains("secret"));
        }
    }
}
