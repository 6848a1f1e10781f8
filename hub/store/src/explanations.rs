//! Explanations of renderings, as the centre sent them: kept compressed, each content once, a bounded number and size of them.
//!
//! What comes in: a document that was checked, as JSON in parts, with who sent it. What goes out: rows, and the text of one part. Of the
//! same snapshot the content that was sent last comes first, and the others stay on record beside it, within bounds. What a bundle that
//! runs, or the newest of a stream, was rendered from goes last. What they say is not decided here.

mod packed;
mod room;

use outhaul_bundle::index::Snapshot;

use self::packed::unpacked;
pub use self::packed::{NewExplanation, PackedExplanation};
use self::room::ExplanationSpace;
pub use self::room::Sender;

use super::db::{OptionalExtension as _, Row, params};
use super::{Session, StoreError, from_sql, json, parse, to_sql};

/// Contents of one snapshot that are kept.
pub const KEPT_OF_SNAPSHOT: usize = 3;
/// Environments of which explanations are kept.
pub const MAX_EXPLAINED_ENVIRONMENTS: usize = 200;
/// Bytes that are kept of all explanations: compressed texts, and snapshots.
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
    /// The digest of what was rendered; [`Session::explanation_snapshot`] has it whole.
    pub snapshot_digest: String,
    /// Its base commit.
    pub base_commit: String,
    /// The commit of the environment's own repository.
    pub environment_commit: String,
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
        /// How many others are gone.
        removed: u64,
    },
    /// There is no room for it; nothing was changed.
    Full,
    /// There is no room for another environment; nothing was changed.
    FullOfEnvironments,
    /// Others sent these contents of its snapshot, which are as many as are kept; nothing was changed.
    FullOfContents(Vec<StoredExplanation>),
}

const COLUMNS: &str = "SELECT id, digest, environment, snapshot_digest, base_commit, environment_commit, assignments, sent_by, received_ms,
            last_sent_by, last_received_ms, bytes, kept_bytes FROM explanations";
/// The one that was sent last first.
const NEWEST: &str = "ORDER BY sent_order DESC";

impl Session<'_> {
    /// Keeps a document. One that is on record already is now the one that was sent last.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn put_explanation(
        &self,
        packed: &PackedExplanation,
        sender: Sender<'_>,
        now_ms: i64,
    ) -> Result<PutExplanation, StoreError> {
        let by = sender.name;
        let document = &packed.document;
        let text = "SELECT COALESCE(MAX(sent_order), 0) FROM explanations";
        let last: i64 = self.db.query_row(text, [], |row| row.get(0))?;
        let order = last.saturating_add(1);
        let text = "UPDATE explanations SET last_sent_by = $1, last_received_ms = $2, sent_order = $3 WHERE digest = $4";
        if self
            .db
            .execute(text, params![by, now_ms, order, document.digest])?
            > 0
        {
            let (new, removed) = (false, 0);
            return Ok(PutExplanation::Kept { new, removed });
        }
        let old = match self.room_for(packed, sender)? {
            ExplanationSpace::Free(old) => old,
            ExplanationSpace::No(full) => return Ok(full),
        };
        let mut removed = 0;
        for id in old {
            removed += u64::from(self.forget_explanation(id)?);
        }
        self.insert_explanation(packed, by, now_ms, order)?;
        Ok(PutExplanation::Kept { new: true, removed })
    }

    fn insert_explanation(
        &self,
        packed: &PackedExplanation,
        by: &str,
        now_ms: i64,
        order: i64,
    ) -> Result<(), StoreError> {
        let document = &packed.document;
        let id = self.next_id("explanations")?;
        let snapshot = &document.snapshot;
        let text = "INSERT INTO explanations (id, digest, environment, snapshot, snapshot_digest, base_commit, environment_commit,
                assignments, sent_by, received_ms, last_sent_by, last_received_ms, sent_order, bytes, kept_bytes, head_bytes, head)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
        self.db.execute(
            text,
            params![
                id,
                document.digest,
                document.environment,
                packed.snapshot,
                snapshot.digest.to_string(),
                snapshot.base.commit,
                snapshot.environment.commit,
                to_sql(document.assignments),
                by,
                now_ms,
                by,
                now_ms,
                order,
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
        Ok(())
    }

    /// What the bundles of an environment were rendered from that run somewhere, or are the newest of their stream that was not taken
    /// back.
    fn needed_snapshots(&self, environment: &str) -> Result<Vec<Snapshot>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT DISTINCT b.snapshot FROM bundles b WHERE b.environment = $1 AND
                (b.number = (SELECT MAX(n.number) FROM bundles n WHERE n.role = b.role AND n.taken_back = 0)
                 OR EXISTS (SELECT 1 FROM stream_sites s WHERE s.role = b.role AND s.reported = 1 AND s.running = b.number))",
        )?;
        let rows = query.query_map(params![environment], |row| row.get::<_, String>(0))?;
        rows.map(|row| parse(&row?, "a snapshot")).collect()
    }

    fn is_needed(&self, needed: &[Snapshot], old: &StoredExplanation) -> Result<bool, StoreError> {
        let mut same = needed.iter().filter(|bundle| {
            (&bundle.base.commit, &bundle.environment.commit)
                == (&old.base_commit, &old.environment_commit)
        });
        let Some(first) = same.next() else {
            return Ok(false);
        };
        let snapshot = self.explanation_snapshot(old.id)?;
        Ok(first.is_of(&snapshot) || same.any(|bundle| bundle.is_of(&snapshot)))
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
            for old in &old {
                if self.is_needed(&needed, old)? {
                    continue;
                }
                found += 1;
                if remove {
                    self.forget_explanation(old.id)?;
                }
            }
        }
        Ok(found)
    }

    /// Removes the explanation of this digest; what it was.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn remove_explanation(
        &self,
        digest: &str,
    ) -> Result<Option<StoredExplanation>, StoreError> {
        let found = self.explanation(digest)?;
        if let Some(one) = &found {
            self.forget_explanation(one.id)?;
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

    /// How many explanations of an environment are on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn count_explanations(&self, environment: &str) -> Result<u64, StoreError> {
        let text = "SELECT COUNT(*) FROM explanations WHERE environment = $1";
        let mut query = self.db.prepare_cached(text)?;
        Ok(from_sql(
            query.query_row(params![environment], |row| row.get(0))?,
        ))
    }

    /// The explanations of what a bundle with this snapshot was rendered from: those of most of its sources first, because one that a
    /// registration is missing of is of it as well; and of those the one that was sent last.
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
        let mut found = Vec::new();
        for one in self.explanations_where(&text, key)? {
            let snapshot = self.explanation_snapshot(one.id)?;
            if bundle.is_of(&snapshot) {
                found.push((snapshot.workloads.len(), one));
            }
        }
        found.sort_by_key(|(sources, _)| std::cmp::Reverse(*sources));
        Ok(found.into_iter().map(|(_, one)| one).collect())
    }

    /// The explanations of exactly this snapshot, the one that was sent last first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn contents_of(
        &self,
        environment: &str,
        snapshot_digest: &str,
    ) -> Result<Vec<StoredExplanation>, StoreError> {
        self.explanations_where(
            &format!("{COLUMNS} WHERE environment = $1 AND snapshot_digest = $2 {NEWEST}"),
            params![environment, snapshot_digest],
        )
    }

    /// What an explanation is of.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn explanation_snapshot(&self, id: i64) -> Result<Snapshot, StoreError> {
        let text = "SELECT snapshot FROM explanations WHERE id = $1";
        let mut query = self.db.prepare_cached(text)?;
        let snapshot: String = query.query_row(params![id], |row| row.get(0))?;
        parse(&snapshot, "a snapshot")
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

fn stored(row: &Row<'_>) -> Result<StoredExplanation, StoreError> {
    Ok(StoredExplanation {
        id: row.get(0)?,
        digest: row.get(1)?,
        environment: row.get(2)?,
        snapshot_digest: row.get(3)?,
        base_commit: row.get(4)?,
        environment_commit: row.get(5)?,
        assignments: from_sql(row.get(6)?),
        sent_by: row.get(7)?,
        received_ms: row.get(8)?,
        last_sent_by: row.get(9)?,
        last_received_ms: row.get(10)?,
        bytes: from_sql(row.get(11)?),
        kept_bytes: from_sql(row.get(12)?),
    })
}

#[cfg(test)]
mod tests;
