//! Which records are being fetched: of each one at a time, and few in all.
//!
//! What comes in: a registration and a commit, asked for by any number of requests. What goes out: the record, or why it cannot be read,
//! the same for all that ask while it is fetched. It keeps none, and knows no request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use outhaul_signer::webhook::WebhookSecrets;
use outhaul_store::WebhookSite;
use tokio::sync::{OnceCell, Semaphore};

use crate::receive::needed;
use crate::record::{KnownRecord, fetch};
use crate::settings::WebhookSettings;
use crate::shown::CheckedEvent;

/// Records that are fetched at once, of all sites.
const FETCHED_AT_ONCE: usize = 8;

/// What a hub that is served has for sites that report by webhook.
#[derive(Debug)]
pub struct Webhooks {
    /// What their secrets are derived from; absent where the hub's key is not open: no event is proven then.
    pub secrets: Option<WebhookSecrets>,
    /// The records of their commits.
    pub records: Records,
}

impl Webhooks {
    /// No record is being fetched yet.
    pub fn new(secrets: Option<WebhookSecrets>) -> Self {
        let records = Records::default();
        Self { secrets, records }
    }
}

/// A record, or why it cannot be read.
type Fetched = Result<KnownRecord, String>;

/// Fetching of records: of each one at a time, and few in all, so that a slow forge holds few threads.
#[derive(Debug)]
pub struct Records {
    permits: Arc<Semaphore>,
    /// Those that are being fetched, by all that they depend on.
    running: Mutex<BTreeMap<String, Weak<OnceCell<Fetched>>>>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(FETCHED_AT_ONCE)),
            running: Mutex::default(),
        }
    }
}

impl Records {
    /// The record of the commit that a site shows after an event, or why it cannot be read; `None` where none is needed, and where the
    /// registration cannot be read: what is wrong with it is reported where the event is put on record.
    pub async fn after(
        &self,
        known: &WebhookSite,
        CheckedEvent(event): &CheckedEvent,
        now_ms: i64,
    ) -> Option<Fetched> {
        let (settings, shown) = crate::read(known).ok()?;
        let commit = needed(&shown, &settings, event, now_ms)?;
        Some(self.of(settings, commit).await)
    }

    /// The record of a commit. Who asks for one that is being fetched gets the same.
    async fn of(&self, settings: WebhookSettings, commit: String) -> Fetched {
        let of = (
            &settings.record,
            &settings.ca,
            &settings.stream.cluster_type,
        );
        let key = format!("{of:?} {commit}");
        let cell = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.retain(|_, cell| cell.strong_count() > 0);
            let found = running.get(&key).and_then(Weak::upgrade);
            found.unwrap_or_else(|| {
                let made = Arc::default();
                running.insert(key, Arc::downgrade(&made));
                made
            })
        };
        let fetched = cell.get_or_init(|| async {
            let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
                return Err(format!(
                    "{FETCHED_AT_ONCE} other records are being fetched: it is read with the next event"
                ));
            };
            let work = tokio::task::spawn_blocking(move || {
                let fetched = fetch(&settings, &commit);
                // Held as long as the thread is, also where nobody waits any more.
                drop(permit);
                fetched
            });
            work.await.unwrap_or_else(|error| Err(error.to_string()))
        });
        fetched.await.clone()
    }
}
