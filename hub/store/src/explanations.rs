//! Explanations of renderings, as the centre sent them: kept compressed, each content once, a bounded number and size of them.
//!
//! What comes in: a document that was checked, as JSON in parts, with who sent it. What goes out: rows, and the text of one part. Of the
//! same snapshot the content that was sent last comes first, and the others stay on record beside it, within bounds. What a bundle that
//! runs, or the newest of a stream, was rendered from goes last. What they say is not decided here.

mod packed;

use outhaul_bundle::index::Snapshot;

use self::packed::unpacked;
pub use self::packed::{MAX_TEXT_BYTES, NewExplanation, PackedExplanation};

use super::db::{OptionalExtension as _, Row, params};
use super::{Session, StoreError, from_sql, json, parse, to_sql};

/// Explanations of one environment that are kept whatever they are about, and those that are kept because bundles that run need them.
const KEPT_OF_ENVIRONMENT: usize = 50;
const MOST_OF_ENVIRONMENT: usize = 200;
/// Contents of one snapshot that are kept.
const KEPT_OF_SNAPSHOT: usize = 3;
/// Compressed bytes of all explanations.
pub const MAX_EXPLANATIONS_BYTES: u64 = 512 * 1024 * 1024;

/// A document on record, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredExplanation {
    /// Its number.
    pub id: i64,
    /// Digest of the whole document.
    pub digest: String,
    /// The environment.
    pub environment: String,
    /// What was rendered.
    pub snapshot: Snapshot,
    /// How many assignments it explains.
    pub assignments: u64,
    /// Who sent it first.
    pub sent_by: String,
    /// When, milliseconds since 1970.
    pub received_ms: i64,
    /// Who sent it last.
    pub last_sent_by: String,
    /// When, milliseconds since 1970.
    pub last_received_ms: i64,
    /// Size of the whole document.
    pub bytes: u64,
    /// What is kept of it, in bytes.
    pub kept_bytes: u64,
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutExplanation {
    /// It is on record, new or known, and so many others were removed for it.
    Kept {
        /// Whether it is new.
        new: bool,
        /// How many older ones of the environment are gone.
        removed: u64,
    },
    /// There is no room for it; nothing was changed.
    Full,
}

const COLUMNS: &str = "SELECT id, digest, environment, snapshot, assignments, sent_by, received_ms, last_sent_by, last_received_ms,
            bytes, kept_bytes FROM explanations";
/// The one that was sent last first.
const NEWEST: &str = "ORDER BY last_received_ms DESC, id DESC";

impl Session<'_> {
    /// Keeps a document. One that is on record already is now the one that was sent last.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn put_explanation(
        &self,
        packed: &PackedExplanation,
        by: &str,
        now_ms: i64,
    ) -> Result<PutExplanation, StoreError> {
        let document = &packed.document;
        // What was sent last comes first, also where the clock was put back.
        let text = "SELECT COALESCE(MAX(last_received_ms), -1) FROM explanations";
        let newest: i64 = self.db.query_row(text, [], |row| row.get(0))?;
        let last_ms = now_ms.max(newest.saturating_add(1));
        let text =
            "UPDATE explanations SET last_sent_by = $1, last_received_ms = $2 WHERE digest = $3";
        if self
            .db
            .execute(text, params![by, last_ms, document.digest])?
            > 0
        {
            let (new, removed) = (false, 0);
            return Ok(PutExplanation::Kept { new, removed });
        }
        let text = "SELECT CAST(COALESCE(SUM(kept_bytes), 0) AS BIGINT) FROM explanations";
        let kept: i64 = self.db.query_row(text, [], |row| row.get(0))?;
        if from_sql(kept).saturating_add(packed.kept_bytes) > MAX_EXPLANATIONS_BYTES {
            return Ok(PutExplanation::Full);
        }
        let id = self.next_id("explanations")?;
        let snapshot = &document.snapshot;
        let text = "INSERT INTO explanations (id, digest, environment, snapshot, snapshot_digest, base_commit, environment_commit,
                assignments, sent_by, received_ms, last_sent_by, last_received_ms, bytes, kept_bytes, head_bytes, head)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
        self.db.execute(
            text,
            params![
                id,
                document.digest,
                document.environment,
                json(snapshot, "a snapshot")?,
                snapshot.digest.to_string(),
                snapshot.base.commit,
                snapshot.environment.commit,
                to_sql(document.assignments),
                by,
                now_ms,
                by,
                last_ms,
                to_sql(document.bytes),
                to_sql(packed.kept_bytes),
                to_sql(packed.head.0),
                packed.head.1
            ],
        )?;
        let mut insert = self.db.prepare_cached(
            "INSERT INTO explanation_parts (explanation, cluster_type, bytes, body) VALUES ($1, $2, $3, $4)",
        )?;
        for (name, bytes, body) in &packed.parts {
            insert.execute(params![id, name, to_sql(*bytes), body])?;
        }
        let removed = self.make_room(&document.environment, snapshot)?;
        Ok(PutExplanation::Kept { new: true, removed })
    }

    /// Removes what is beyond the bounds of an environment, and of a snapshot; how many.
    fn make_room(&self, environment: &str, snapshot: &Snapshot) -> Result<u64, StoreError> {
        let mut removed = 0;
        let digest = snapshot.digest.to_string();
        let of_snapshot = self.explanations_where(
            &format!("{COLUMNS} WHERE environment = $1 AND snapshot_digest = $2 {NEWEST}"),
            params![environment, digest],
        )?;
        for old in of_snapshot.iter().skip(KEPT_OF_SNAPSHOT) {
            removed += u64::from(self.forget_explanation(old.id)?);
        }
        let all = self.explanations(environment, MOST_OF_ENVIRONMENT + 100)?;
        if all.len() <= KEPT_OF_ENVIRONMENT {
            return Ok(removed);
        }
        let needed = self.needed_snapshots(environment)?;
        for (at, old) in all.iter().enumerate().skip(KEPT_OF_ENVIRONMENT) {
            if at >= MOST_OF_ENVIRONMENT || !is_needed(&needed, old) {
                removed += u64::from(self.forget_explanation(old.id)?);
            }
        }
        Ok(removed)
    }

    /// What the bundles of an environment were rendered from that run somewhere, or are the newest of their stream.
    fn needed_snapshots(&self, environment: &str) -> Result<Vec<Snapshot>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT DISTINCT b.snapshot FROM bundles b WHERE b.environment = $1 AND
                (b.number = (SELECT MAX(n.number) FROM bundles n WHERE n.role = b.role)
                 OR EXISTS (SELECT 1 FROM stream_sites s WHERE s.role = b.role AND s.reported = 1 AND s.running = b.number))",
        )?;
        let rows = query.query_map(params![environment], |row| row.get::<_, String>(0))?;
        rows.map(|row| parse(&row?, "a snapshot")).collect()
    }

    /// The explanations that were last received before a moment and that no bundle needs which runs or is the newest; with `remove`
    /// they are gone. How many.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn old_explanations(&self, before_ms: i64, remove: bool) -> Result<u64, StoreError> {
        let mut found = 0;
        for environment in self.explained_environments()? {
            let old = self.explanations_where(
                &format!("{COLUMNS} WHERE environment = $1 AND last_received_ms < $2 {NEWEST}"),
                params![environment, before_ms],
            )?;
            if old.is_empty() {
                continue;
            }
            let needed = self.needed_snapshots(&environment)?;
            for old in old.iter().filter(|old| !is_needed(&needed, old)) {
                found += 1;
                if remove {
                    self.forget_explanation(old.id)?;
                }
            }
        }
        Ok(found)
    }

    /// Removes one; whether it was there.
    fn forget_explanation(&self, id: i64) -> Result<bool, StoreError> {
        let parts = "DELETE FROM explanation_parts WHERE explanation = $1";
        self.db.execute(parts, params![id])?;
        let text = "DELETE FROM explanations WHERE id = $1";
        Ok(self.db.execute(text, params![id])? > 0)
    }

    /// Environments of which explanations are on record, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn explained_environments(&self) -> Result<Vec<String>, StoreError> {
        let text = "SELECT DISTINCT environment FROM explanations ORDER BY environment";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The explanations of an environment, at most so many, the one that was sent last first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn explanations(
        &self,
        environment: &str,
        at_most: usize,
    ) -> Result<Vec<StoredExplanation>, StoreError> {
        self.explanations_where(
            &format!("{COLUMNS} WHERE environment = $1 {NEWEST} LIMIT $2"),
            params![environment, to_sql(at_most as u64)],
        )
    }

    /// The explanation of this digest.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn explanation(&self, digest: &str) -> Result<Option<StoredExplanation>, StoreError> {
        let text = format!("{COLUMNS} WHERE digest = $1");
        Ok(self.explanations_where(&text, params![digest])?.pop())
    }

    /// The explanations of what a bundle with this snapshot was rendered from, the one that was sent last first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn explanations_of(
        &self,
        environment: &str,
        bundle: &Snapshot,
    ) -> Result<Vec<StoredExplanation>, StoreError> {
        let text = format!(
            "{COLUMNS} WHERE environment = $1 AND base_commit = $2 AND environment_commit = $3 {NEWEST}"
        );
        let key = params![environment, bundle.base.commit, bundle.environment.commit];
        let mut found = self.explanations_where(&text, key)?;
        found.retain(|one| bundle.is_of(&one.snapshot));
        Ok(found)
    }

    fn explanations_where(
        &self,
        text: &str,
        params: impl super::db::Params,
    ) -> Result<Vec<StoredExplanation>, StoreError> {
        let mut query = self.db.prepare_cached(text)?;
        let mut rows = query.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(stored(&row)?);
        }
        Ok(found)
    }

    /// What pages of all of it need, as JSON.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn explanation_head(&self, id: i64) -> Result<Vec<u8>, StoreError> {
        let text = "SELECT head, head_bytes FROM explanations WHERE id = $1";
        let mut query = self.db.prepare_cached(text)?;
        let (body, bytes): (Vec<u8>, i64) =
            query.query_row(params![id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        unpacked(&body, bytes)
    }

    /// What is for one cluster type, as JSON; `None` where nothing is.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn explanation_part(
        &self,
        id: i64,
        cluster_type: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let text = "SELECT body, bytes FROM explanation_parts WHERE explanation = $1 AND cluster_type = $2";
        let mut query = self.db.prepare_cached(text)?;
        let found: Option<(Vec<u8>, i64)> = query
            .query_row(params![id, cluster_type], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        found
            .map(|(body, bytes)| unpacked(&body, bytes))
            .transpose()
    }
}

fn is_needed(needed: &[Snapshot], old: &StoredExplanation) -> bool {
    needed.iter().any(|bundle| bundle.is_of(&old.snapshot))
}

fn stored(row: &Row<'_>) -> Result<StoredExplanation, StoreError> {
    let snapshot: String = row.get(3)?;
    Ok(StoredExplanation {
        id: row.get(0)?,
        digest: row.get(1)?,
        environment: row.get(2)?,
        snapshot: parse(&snapshot, "a snapshot")?,
        assignments: from_sql(row.get(4)?),
        sent_by: row.get(5)?,
        received_ms: row.get(6)?,
        last_sent_by: row.get(7)?,
        last_received_ms: row.get(8)?,
        bytes: from_sql(row.get(9)?),
        kept_bytes: from_sql(row.get(10)?),
    })
}

#[cfg(test)]
mod tests;
