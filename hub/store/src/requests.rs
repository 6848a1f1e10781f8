//! Requests that wait for a person, those that a person rejected, and the kits that are expected.
//!
//! What comes in: requests whose signatures hold. What goes out: the same, each beside the others for its
//! site, because a pending request is never replaced. How many may wait is the caller's rule; how many
//! rejections are remembered is bounded here.

use super::db::{DbError, OptionalExtension as _, Row, params};

use super::{Session, StoreError};

/// Rejections remembered.
const MAX_REJECTED: i64 = 10_000;

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestOrigin<'a> {
    /// `network`, where anybody can send one, or `file`, where someone imported it.
    pub lane: &'static str,
    /// The peer's address; empty for a file.
    pub peer: &'a str,
}

impl RequestOrigin<'_> {
    /// Someone with access to this machine brought it.
    pub const FILE: RequestOrigin<'static> = RequestOrigin {
        lane: "file",
        peer: "",
    };
}

/// A request that waits for someone to approve or reject it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRequest {
    /// The site's name.
    pub site: String,
    /// The fingerprint of the key that it is about.
    pub key_id: String,
    /// The id of the kit that it proves; empty for a new key by order.
    pub kit: String,
    /// `network` or `file`.
    pub lane: String,
    /// The peer's address; empty for a file.
    pub peer: String,
    /// The signed request, as it came.
    pub envelope: Vec<u8>,
    /// When it came, milliseconds since 1970.
    pub received_ms: i64,
}

/// How many requests wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingCounts {
    /// In the lane.
    pub lane: i64,
    /// Of the peer.
    pub peer: i64,
    /// For the site.
    pub site: i64,
}

const COLUMNS: &str = "site, key_id, kit, lane, peer, envelope, received_ms";

impl Session<'_> {
    /// Keeps a request beside the others for its site. `false` when it waits already.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_request(&self, request: &PendingRequest) -> Result<bool, StoreError> {
        let id = self.next_id("pending_requests")?;
        let text = format!(
            "INSERT INTO pending_requests (id, {COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (site, key_id, kit) DO NOTHING"
        );
        let kept = self.db.execute(
            &text,
            params![
                id,
                request.site,
                request.key_id,
                request.kit,
                request.lane,
                request.peer,
                request.envelope,
                request.received_ms
            ],
        )?;
        Ok(kept == 1)
    }

    /// Requests that wait, by site, the first that came first; at most `at_most` of them.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn pending_requests(&self, at_most: u32) -> Result<Vec<PendingRequest>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM pending_requests ORDER BY site, id LIMIT $1");
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map(params![at_most], pending)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The requests for one site that wait, the first that came first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn requests_of(&self, site: &str) -> Result<Vec<PendingRequest>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM pending_requests WHERE site = $1 ORDER BY id");
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map(params![site], pending)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many requests wait in a lane, of a peer in it, and for a site.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn waiting_requests(
        &self,
        origin: RequestOrigin<'_>,
        site: &str,
    ) -> Result<WaitingCounts, StoreError> {
        let text = "SELECT (SELECT COUNT(*) FROM pending_requests WHERE lane = $1),
                           (SELECT COUNT(*) FROM pending_requests WHERE lane = $1 AND peer = $2),
                           (SELECT COUNT(*) FROM pending_requests WHERE site = $3)";
        let key = params![origin.lane, origin.peer, site];
        Ok(self.db.query_row(text, key, |row| {
            Ok(WaitingCounts {
                lane: row.get(0)?,
                peer: row.get(1)?,
                site: row.get(2)?,
            })
        })?)
    }

    /// How many requests wait.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn count_requests(&self) -> Result<u64, StoreError> {
        let text = "SELECT COUNT(*) FROM pending_requests";
        let count: i64 = self.db.query_row(text, [], |row| row.get(0))?;
        Ok(super::from_sql(count))
    }

    /// Forgets what waits for a site and a key: it was approved.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn forget_request(&self, site: &str, key_id: &str) -> Result<(), StoreError> {
        let text = "DELETE FROM pending_requests WHERE site = $1 AND key_id = $2";
        self.db.execute(text, params![site, key_id])?;
        let text = "DELETE FROM rejected_requests WHERE site = $1 AND key_id = $2";
        self.db.execute(text, params![site, key_id])?;
        Ok(())
    }

    /// Rejects a request that waits, so that it does not come back by being sent again.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn reject_request(&self, request: &PendingRequest, now_ms: i64) -> Result<(), StoreError> {
        let text = "DELETE FROM pending_requests WHERE site = $1 AND key_id = $2 AND kit = $3";
        self.db
            .execute(text, params![request.site, request.key_id, request.kit])?;
        let id = self.next_id("rejected_requests")?;
        let text = "INSERT INTO rejected_requests (id, site, key_id, kit, rejected_ms)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (site, key_id, kit) DO NOTHING";
        self.db.execute(
            text,
            params![id, request.site, request.key_id, request.kit, now_ms],
        )?;
        self.db.execute(
            "DELETE FROM rejected_requests WHERE id <= $1",
            params![id - MAX_REJECTED],
        )?;
        Ok(())
    }

    /// Rejects everything that came over the network and waits. Returns how many there were.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn reject_network(&self) -> Result<u64, StoreError> {
        let text = "DELETE FROM pending_requests WHERE lane = 'network'";
        Ok(self.db.execute(text, [])? as u64)
    }

    /// Whether a person rejected this very request.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn is_rejected(&self, site: &str, key_id: &str, kit: &str) -> Result<bool, StoreError> {
        let text = "SELECT 1 FROM rejected_requests WHERE site = $1 AND key_id = $2 AND kit = $3";
        let mut query = self.db.prepare_cached(text)?;
        let found: Option<i64> = query
            .query_row(params![site, key_id, kit], |row| row.get(0))
            .optional()?;
        Ok(found.is_some())
    }

    /// Remembers that a kit was handed out for a site; a newer one takes the place of an older.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn expect_site(&self, site: &str, kit: &str, now_ms: i64) -> Result<(), StoreError> {
        let text = "INSERT INTO expected_sites (site, kit, expected_ms)
             VALUES ($1, $2, $3)
             ON CONFLICT (site) DO UPDATE SET kit = excluded.kit,
                expected_ms = excluded.expected_ms";
        self.db.execute(text, params![site, kit, now_ms])?;
        Ok(())
    }

    /// The kit that is expected of a site.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn expected_kit(&self, site: &str) -> Result<Option<String>, StoreError> {
        let text = "SELECT kit FROM expected_sites WHERE site = $1";
        let mut query = self.db.prepare_cached(text)?;
        Ok(query
            .query_row(params![site], |row| row.get(0))
            .optional()?)
    }

    /// A kit is expected no longer: it was used.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn spend_expected(&self, site: &str) -> Result<(), StoreError> {
        let text = "DELETE FROM expected_sites WHERE site = $1";
        self.db.execute(text, params![site])?;
        Ok(())
    }
}

fn pending(row: &Row<'_>) -> Result<PendingRequest, DbError> {
    Ok(PendingRequest {
        site: row.get(0)?,
        key_id: row.get(1)?,
        kit: row.get(2)?,
        lane: row.get(3)?,
        peer: row.get(4)?,
        envelope: row.get(5)?,
        received_ms: row.get(6)?,
    })
}
