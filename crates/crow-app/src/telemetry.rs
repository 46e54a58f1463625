//! Telemetry of the sessions of a host: an observer of each root session feeds the local store and the exporter.
//!
//! Observers never slow an agent down. What is stored and sent is set by the user alone, in `[telemetry]` of `config.toml`
//! and by the variables of OpenTelemetry.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crow_core::{
    capability::Http,
    event::AgentEvent,
    ids::SessionId,
    model::{ModelRef, Models},
};
use crow_runtime::{AgentHandle, ObserverItem};
use crow_telemetry::{
    SpanStore, TelemetryFeed,
    otel::{
        ContentCapture, OtelConsumer, OtelExporter, OtelReport, OtelSettings, OtelSettingsError,
        PriceTable, SpanEncoder,
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    config::{Configuration, TelemetryTable},
    environment::ProcessEnvironment,
};

/// Time for the last events of sessions to be taken, when the program ends.
const LAST_EVENTS: Duration = Duration::from_millis(500);
/// Time for the last spans to be sent, when the program ends.
const LAST_SPANS: Duration = Duration::from_secs(1);

/// The consumers of the telemetry of a host.
#[derive(Debug)]
pub(crate) struct HostTelemetry {
    store: Option<Arc<SpanStore>>,
    /// The exporter and what it is made from; it starts with the first session.
    exporter: Mutex<ExporterState>,
    models: Option<Arc<dyn Models>>,
    prices: PriceTable,
    watchers: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
enum ExporterState {
    /// Nothing is sent.
    Off,
    /// It starts with the first session.
    Configured(Box<(OtelSettings, Arc<dyn Http>)>),
    Running(OtelExporter, ContentCapture),
}

impl HostTelemetry {
    /// Telemetry that goes nowhere.
    pub(crate) fn off() -> Self {
        Self {
            store: None,
            exporter: Mutex::new(ExporterState::Off),
            models: None,
            prices: PriceTable::new(),
            watchers: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Telemetry by the user's configuration. Returns also what is wrong with the variables of the exporter, which is off
    /// then.
    pub(crate) fn new(
        table: &TelemetryTable,
        environment: &ProcessEnvironment,
        http: Arc<dyn Http>,
        models: Arc<dyn Models>,
    ) -> (Self, Option<String>) {
        if is_switched_off(environment) {
            return (Self::off(), None);
        }
        let content = match table.content {
            Some(true) => ContentCapture::Captured,
            Some(false) | None => ContentCapture::LeftOut,
        };
        let folder = environment.data_dir().ok().map(|data| data.join("telemetry"));
        let store = folder.filter(|_| table.local != Some(false));
        let store = store.map(|folder| Arc::new(SpanStore::new(folder, content)));
        let (settings, fault) = match settings_of(table, environment) {
            Ok(settings) => (settings, None),
            Err(error) => (None, Some(format!("telemetry is not sent: {error}"))),
        };
        let exporter = match settings {
            Some(mut settings) => {
                if content == ContentCapture::Captured {
                    settings.content = content;
                }
                ExporterState::Configured(Box::new((settings, http)))
            }
            None => ExporterState::Off,
        };
        let exporter = Mutex::new(exporter);
        (Self { store, exporter, models: Some(models), ..Self::off() }, fault)
    }

    /// Returns which part of all traces is sent to a collector, from 0 to 1; `None` if spans are not sent. Must be called
    /// before the first session is watched.
    pub(crate) fn sampling(&self) -> Option<f64> {
        let state = self.exporter.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            ExporterState::Configured(parts) if parts.0.traces.is_some() => Some(parts.0.sampled),
            // Without spans of its own, the program leaves the traces of others alone.
            ExporterState::Configured(_) | ExporterState::Off | ExporterState::Running(..) => None,
        }
    }

    /// Watches a root session until it ends. Needs a tokio runtime.
    pub(crate) fn watch(&self, handle: &AgentHandle) {
        let model = handle.metadata().model_ref();
        let mut feed = TelemetryFeed::new().with_model(handle.session_id(), model);
        let mut has_consumer = false;
        if let Some(store) = &self.store {
            feed = feed.with_internal(Arc::clone(store).consumer());
            has_consumer = true;
        }
        if let Some((consumer, content)) = self.exporter_consumer(handle.session_id()) {
            feed = feed.with_internal(consumer.clone()).with_acp(consumer);
            if content == ContentCapture::Captured {
                feed = feed.with_content();
            }
            has_consumer = true;
        }
        if !has_consumer {
            return;
        }
        let mut observer = handle.subscribe();
        let stop = self.stop.clone();
        let (models, prices) = (self.models.clone(), self.prices.clone());
        self.watchers.spawn(async move {
            while let Some(Some(item)) = stop.run_until_cancelled(observer.next()).await {
                match item {
                    ObserverItem::Event(event) => {
                        if let Some(models) = &models {
                            set_price(&event.event, models.as_ref(), &prices).await;
                        }
                        feed.on_event(&event);
                    }
                    // Durable events that were missed follow from the log.
                    ObserverItem::Lagged { .. } | ObserverItem::OpenReply(_) => {}
                    ObserverItem::Lost(error) => {
                        tracing::warn!(%error, "telemetry misses events");
                    }
                }
            }
            feed.finish();
        });
    }

    fn exporter_consumer(&self, session: &SessionId) -> Option<(OtelConsumer, ContentCapture)> {
        let mut state = self.exporter.lock().unwrap_or_else(PoisonError::into_inner);
        if let ExporterState::Configured(parts) = &mut *state {
            let (settings, http) = (parts.0.clone(), Arc::clone(&parts.1));
            let encoder = SpanEncoder {
                conventions: settings.conventions,
                content: settings.content,
                prices: self.prices.clone(),
            };
            // The first session names the instance as well as any other number.
            let program = ("crow-agent", env!("CARGO_PKG_VERSION"), session.as_str());
            let content = settings.content;
            let exporter = OtelExporter::start(settings, encoder, program, http);
            *state = ExporterState::Running(exporter, content);
        }
        match &*state {
            ExporterState::Running(exporter, content) => Some((exporter.consumer(), *content)),
            ExporterState::Off | ExporterState::Configured(_) => None,
        }
    }

    /// Takes the last events of the sessions, and sends what is left, for a moment at most. Returns what was sent, if
    /// anything was to be.
    pub(crate) async fn shut_down(&self) -> Option<OtelReport> {
        self.watchers.close();
        if tokio::time::timeout(LAST_EVENTS, self.watchers.wait()).await.is_err() {
            self.stop.cancel();
            self.watchers.wait().await;
        }
        let state = {
            let mut state = self.exporter.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, ExporterState::Off)
        };
        match state {
            ExporterState::Running(exporter, _) => Some(exporter.shut_down(LAST_SPANS).await),
            ExporterState::Off | ExporterState::Configured(_) => None,
        }
    }
}

/// Returns where telemetry is sent, by the variables and the user's configuration; `None` if nowhere.
///
/// # Errors
/// Fails if a variable, or the endpoint of the configuration, cannot be used.
pub fn otel_settings(
    configuration: &Configuration,
    environment: &ProcessEnvironment,
) -> Result<Option<OtelSettings>, OtelSettingsError> {
    settings_of(&configuration.settings.telemetry, environment)
}

/// Returns true if the user turned telemetry off for this process.
fn is_switched_off(environment: &ProcessEnvironment) -> bool {
    let switch = environment.var("CROW_TELEMETRY").unwrap_or_default().to_ascii_lowercase();
    ["off", "0", "false", "no", "none"].contains(&switch.trim())
}

fn settings_of(
    table: &TelemetryTable,
    environment: &ProcessEnvironment,
) -> Result<Option<OtelSettings>, OtelSettingsError> {
    if is_switched_off(environment) {
        return Ok(None);
    }
    OtelSettings::from_variables(|name| match (environment.var(name), name) {
        (None, "OTEL_EXPORTER_OTLP_ENDPOINT") => table.endpoint.clone(),
        (given, _) => given,
    })
}

/// Looks up the price of a model when it replies for the first time.
async fn set_price(event: &AgentEvent, models: &dyn Models, prices: &PriceTable) {
    let AgentEvent::Reply { origin, .. } = event else { return };
    let model = ModelRef { provider: origin.provider.clone(), model: origin.model.clone() };
    if !prices.is_set(&model) {
        let price = models.price(&model).await;
        prices.set(model, price);
    }
}
