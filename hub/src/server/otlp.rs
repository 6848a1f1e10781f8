//! Metrics pushed to a collector by OTLP, beside the server.
//!
//! What comes in: settings, and the metrics that a scrape would get. What goes out: a push every so often, a line in the log when
//! pushes are no longer taken, and one when they are again. One thread has one body at a time: a collector that is slow or
//! absent keeps nothing else waiting and costs no more memory. What was not taken is not kept: the next push says it all.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outhaul_kit::durable;
use outhaul_kit::text::chain;
use outhaul_telemetry::{
    OtlpSettings, PushChange, PushHealth, PushResult, Resource, document, push,
};

use super::shared::Shared;
use crate::error::HubError;
use crate::time;

/// The file of the state folder that names this hub to collectors, and its most bytes.
const INSTANCE_FILE: &str = "telemetry-instance";
const INSTANCE_BYTES: u64 = 256;
/// How often the thread looks whether it is to end.
const TICK: Duration = Duration::from_millis(500);

/// Pushes until `stop`.
///
/// # Errors
/// [`HubError`] when the hub's name for collectors cannot be kept, or the thread not be started.
pub(super) fn start(
    state: &Path,
    shared: &Arc<Shared>,
    settings: &OtlpSettings,
    stop: &Arc<AtomicBool>,
) -> Result<(), HubError> {
    let resource = Resource {
        instance: instance(state)?,
        fleet: shared.fleet.clone(),
        version: env!("CARGO_PKG_VERSION"),
        started_ms: shared.meter.started_ms(),
    };
    tracing::info!(
        every_seconds = settings.every.as_secs(),
        instance = resource.instance,
        "metrics are pushed by OTLP"
    );
    shared.meter.count_pushes(|_| ());
    let (shared, settings, stop) = (Arc::clone(shared), settings.clone(), Arc::clone(stop));
    let started = std::thread::Builder::new()
        .name("otlp".to_owned())
        .spawn(move || repeat(&shared, &settings, &resource, &stop));
    started.map(drop).map_err(|source| HubError::Serve {
        doing: "start the thread that pushes metrics".to_owned(),
        source,
    })
}

fn repeat(shared: &Shared, settings: &OtlpSettings, resource: &Resource, stop: &AtomicBool) {
    let mut trouble = PushHealth::default();
    while !stop.load(Ordering::Relaxed) {
        let result = once(shared, settings, resource);
        shared.meter.count_pushes(|counts| counts.add(&result));
        match trouble.after(&result) {
            None => {}
            Some(PushChange::Began(problem)) => tracing::warn!(
                problem,
                "the collector does not accept metrics; nothing else waits for it, and it is tried again until it does"
            ),
            Some(PushChange::Ended(missed)) => {
                tracing::info!(missed, "the collector accepts metrics again");
            }
        }
        let asked = match result {
            PushResult::Refused { wait, .. } => wait.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        let wait = asked.max(settings.every);
        let mut waited = Duration::ZERO;
        while waited < wait && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            waited += TICK;
        }
    }
}

fn once(shared: &Shared, settings: &OtlpSettings, resource: &Resource) -> PushResult {
    let numbers = match shared.meter.read() {
        Ok(numbers) => numbers,
        Err(error) => {
            return PushResult::Failed {
                problem: format!("the numbers of the fleet cannot be read: {}", chain(&error)),
            };
        }
    };
    let metrics = shared.metrics(&numbers);
    match document(&metrics, resource, time::now_ms()) {
        Ok(body) => push(settings, &body),
        Err(error) => PushResult::Failed {
            problem: error.to_string(),
        },
    }
}

/// The name of this hub, made once: of several on one database each has its own, and keeps it when it starts again.
fn instance(state: &Path) -> Result<String, HubError> {
    let path = state.join(INSTANCE_FILE);
    if let Some(bytes) = durable::read_if_present(&path, INSTANCE_BYTES)? {
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !text.is_empty() && text.chars().all(is_name) {
            return Ok(text);
        }
        return Err(HubError::Usage {
            problem: format!("`{}` is not a name", path.display()),
            help:
                "write letters, digits, `-`, `_` and `.` into it, or remove it: a new name is made"
                    .to_owned(),
        });
    }
    let mut bytes = [0; 16];
    outhaul_signer::key::random(&mut bytes).map_err(|error| HubError::Serve {
        doing: "make a name for collectors".to_owned(),
        source: std::io::Error::other(error),
    })?;
    let text = hex::encode(bytes);
    durable::write(&path, format!("{text}\n").as_bytes(), 0o644)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_has_one_name_for_collectors_until_somebody_gives_it_another() {
        let folder = tempfile::tempdir().unwrap();
        let made = instance(folder.path()).unwrap();
        assert_eq!(made.len(), 32);
        assert_eq!(instance(folder.path()).unwrap(), made);
        let file = folder.path().join(INSTANCE_FILE);
        std::fs::write(&file, "hub-1.example\n").unwrap();
        assert_eq!(instance(folder.path()).unwrap(), "hub-1.example");
        std::fs::write(&file, "two words\n").unwrap();
        assert!(instance(folder.path()).is_err());
    }
}
