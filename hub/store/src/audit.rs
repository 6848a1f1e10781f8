//! What an audit needs: the chain of decisions, the signed metadata that was accepted, and all of it in lines.
//!
//! What comes in: decisions and metadata as they are recorded. What goes out: the lines of an export, in an order that
//! follows from the record alone. It checks nothing; nothing here is changed after it was recorded.

use std::collections::BTreeMap;

use super::db::{DbError, OptionalExtension as _, Row, params};
use super::envelopes::{envelope, kept};
use outhaul_gate::audit::{AuditLine, Link, Recorded};
use outhaul_gate::facts::ActKind;
use outhaul_gate::later::{self, LaterDecision};

use super::decisions::step_of;
use super::{Session, StoreError, from_sql, json, parse, removed, to_sql};

/// Largest index that is kept, in bytes. Of a larger one the digest is kept only, and decisions that need it cannot be
/// recomputed.
pub const MAX_INDEX_BYTES: usize = 8 * 1024 * 1024;

/// A decision in the chain, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ChainedDecision {
    /// Its number.
    pub id: i64,
    /// `open` or `closed`.
    pub verdict: String,
    /// When, milliseconds since 1970; `None` where only the place in the chain is kept.
    pub at_ms: Option<i64>,
    /// The environment; empty likewise.
    pub environment: String,
    /// The base commit; empty likewise.
    pub commit: String,
    /// Who asked.
    pub asked_by: String,
    /// The environment that the commit was to go to, where that was said.
    pub to: Option<String>,
    /// The digest that ties it to the one before; empty for those from before there was a chain.
    pub digest: String,
}

impl Session<'_> {
    /// The latest time among the newest thousand decisions of gates, acts of people and uses of rights; `None` without any.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn latest_on_record(&self) -> Result<Option<i64>, StoreError> {
        let of = |table: &str| {
            let text = format!(
                "SELECT MAX(at_ms) FROM (SELECT at_ms FROM {table} ORDER BY id DESC LIMIT 1000) AS newest"
            );
            self.db
                .query_row(&text, [], |row| row.get::<_, Option<i64>>(0))
        };
        let all = [of("gate_decisions")?, of("gate_acts")?, of("access_log")?];
        Ok(all.into_iter().flatten().max())
    }

    /// What the clock of the database's server shows, milliseconds since 1970; `None` where the database is a file of this machine.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn server_clock_ms(&self) -> Result<Option<i64>, StoreError> {
        if !self.db.is_server() {
            return Ok(None);
        }
        let text = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
        Ok(Some(self.db.query_row(text, [], |row| row.get(0))?))
    }

    /// The latest decision that is dated after now and whose time counts, by an edition of the gate's rules; `None` where the clock is
    /// not before the record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn later_decision(
        &self,
        now_ms: i64,
        edition: u32,
    ) -> Result<Option<LaterDecision>, StoreError> {
        let from = later::from(self.acts_of(ActKind::Clock)?.iter(), now_ms, edition);
        let mut query = self.db.prepare_cached(
            "SELECT id, at_ms FROM gate_decisions WHERE id > $1 AND at_ms > $2 ORDER BY at_ms DESC, id LIMIT 1",
        )?;
        let rows = query.query_map(params![from, now_ms], |row| {
            Ok(LaterDecision {
                id: row.get(0)?,
                at_ms: row.get(1)?,
            })
        })?;
        let latest: Vec<LaterDecision> = rows.collect::<Result<_, _>>()?;
        Ok(later::found(latest.into_iter(), from, now_ms))
    }

    /// Decisions below a number, the newest first, those that are forgotten but for their place in the chain included.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn chained_decisions(
        &self,
        below: i64,
        at_most: u32,
    ) -> Result<Vec<ChainedDecision>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT ids.id, COALESCE(c.verdict, d.verdict), d.at_ms, COALESCE(d.environment, ''),
                    COALESCE(d.base_commit, ''), COALESCE(d.asked_by, ''), COALESCE(c.digest, ''),
                    COALESCE(d.decision, '')
               FROM (SELECT id FROM gate_decisions WHERE id < $1
                     UNION SELECT id FROM decision_chain WHERE id < $1
                     ORDER BY 1 DESC LIMIT $2) AS ids
               LEFT JOIN decision_chain c ON c.id = ids.id
               LEFT JOIN gate_decisions d ON d.id = ids.id ORDER BY ids.id DESC",
        )?;
        let rows = query.query_map(params![below, at_most], chained)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The same of one environment: of those that are no longer kept the environment is not known, and they are not among them.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn chained_decisions_of(
        &self,
        environment: &str,
        below: i64,
        at_most: u32,
    ) -> Result<Vec<ChainedDecision>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT d.id, d.verdict, d.at_ms, d.environment, d.base_commit, d.asked_by,
                    COALESCE(c.digest, ''), d.decision
               FROM gate_decisions d LEFT JOIN decision_chain c ON c.id = d.id
              WHERE d.environment = $1 AND d.id < $2 ORDER BY d.id DESC LIMIT $3",
        )?;
        let rows = query.query_map(params![environment, below, at_most], chained)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Puts a decision at the end of the chain.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn add_link(&self, decision: &Recorded) -> Result<(), StoreError> {
        let text = "SELECT digest FROM decision_chain ORDER BY id DESC LIMIT 1";
        let previous: Option<String> = self.db.query_row(text, [], |row| row.get(0)).optional()?;
        let previous = previous.unwrap_or_default();
        let content = decision.digest();
        let digest = Link::digest_of(&previous, decision.id, &decision.verdict, &content);
        let text = "INSERT INTO decision_chain (id, verdict, content, previous, digest)
             VALUES ($1, $2, $3, $4, $5)";
        self.db.execute(
            text,
            params![decision.id, decision.verdict, content, previous, digest],
        )?;
        Ok(())
    }

    /// Keeps signed metadata that was accepted for a stream, and the index of its bundle unless it is there.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_metadata(
        &self,
        (role, number): (&str, u64),
        files: &BTreeMap<String, Vec<u8>>,
        index: &[u8],
        at_ms: i64,
    ) -> Result<(), StoreError> {
        let text: BTreeMap<&str, String> = files
            .iter()
            .map(|(name, bytes)| (name.as_str(), String::from_utf8_lossy(bytes).into_owned()))
            .collect();
        let text = json(&text, "metadata")?;
        let number = to_sql(number);
        let known = "SELECT EXISTS (SELECT 1 FROM accepted_metadata
              WHERE role = $1 AND number = $2 AND index_body IS NOT NULL)";
        let has_index: bool = self
            .db
            .query_row(known, params![role, number], |row| row.get(0))?;
        let last = "SELECT files FROM accepted_metadata WHERE role = $1 ORDER BY id DESC LIMIT 1";
        let last: Option<String> = self
            .db
            .query_row(last, params![role], |row| row.get(0))
            .optional()?;
        let body = (!has_index && index.len() <= MAX_INDEX_BYTES)
            .then(|| std::str::from_utf8(index).ok())
            .flatten();
        if body.is_none() && last.as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        let insert = "INSERT INTO accepted_metadata (id, role, number, at_ms, files, index_body)
             VALUES ($1, $2, $3, $4, $5, $6)";
        let id = self.next_id("accepted_metadata")?;
        self.db
            .execute(insert, params![id, role, number, at_ms, text, body])?;
        Ok(())
    }

    /// Hands every line of an export to `take`, but the first and the last; within [`Store::read_all`](super::Store::read_all).
    ///
    /// # Errors
    /// What `take` returns, or [`StoreError`] when the store fails.
    pub fn audit_lines<E: From<StoreError>>(
        &self,
        take: &mut impl FnMut(AuditLine) -> Result<(), E>,
    ) -> Result<(), E> {
        for sites in [SITES, SITE_KEYS, METADATA, REPORTS, REMOVED] {
            self.each(sites, take)?;
        }
        for site in self.site_states()? {
            let Some(newest) = site.newest.filter(|_| !site.missing.is_empty()) else {
                continue;
            };
            take(AuditLine::Missing {
                site: site.site,
                epoch: newest.epoch,
                reports: site.missing,
            })?;
        }
        for (site, conflict, envelope) in self.all_conflicts()? {
            take(AuditLine::Conflict {
                site,
                conflict,
                envelope,
            })?;
        }
        for (restored, digest) in self.restores()? {
            take(AuditLine::Restore { restored, digest })?;
        }
        for (act, previous, digest) in self.act_chain()? {
            take(AuditLine::Act {
                act,
                previous,
                digest,
            })?;
        }
        for (id, content, chain) in self.chained()? {
            let line = match self.recorded(id)? {
                Some(recorded) => AuditLine::Decision {
                    content: recorded,
                    chain: chain.map(|(_, link)| link),
                },
                None => match chain {
                    Some((verdict, chain)) => AuditLine::Forgotten {
                        id,
                        verdict,
                        content: content.unwrap_or_default(),
                        chain,
                    },
                    None => continue,
                },
            };
            take(line)?;
        }
        Ok(())
    }

    fn each<E: From<StoreError>>(
        &self,
        (text, line): Lines,
        take: &mut impl FnMut(AuditLine) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error: DbError| E::from(StoreError::from(error));
        self.db.each(text, failed, |row| take(line(row)?))
    }

    /// Every decision by number: the digest of its content, and its verdict and link.
    #[expect(
        clippy::type_complexity,
        reason = "rows of one query, taken apart where it is called"
    )]
    pub(super) fn chained(
        &self,
    ) -> Result<Vec<(i64, Option<String>, Option<(String, Link)>)>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT ids.id, c.content, c.verdict, c.previous, c.digest
               FROM (SELECT id FROM gate_decisions UNION SELECT id FROM decision_chain) AS ids
               LEFT JOIN decision_chain c ON c.id = ids.id ORDER BY ids.id",
        )?;
        let rows = query.query_map([], |row| {
            let verdict: Option<String> = row.get(2)?;
            let link = match verdict {
                None => None,
                Some(verdict) => Some((
                    verdict,
                    Link {
                        previous: row.get(3)?,
                        digest: row.get(4)?,
                    },
                )),
            };
            Ok((row.get(0)?, row.get(1)?, link))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(super) fn recorded(&self, id: i64) -> Result<Option<Recorded>, StoreError> {
        let Some((decision, evidence)) = self.decision_text(id)? else {
            return Ok(None);
        };
        let text = "SELECT at_ms, environment, base_commit, verdict, asked_by
               FROM gate_decisions WHERE id = $1";
        let found = self.db.query_row(text, params![id], |row| {
            Ok(Recorded {
                id,
                at_ms: row.get(0)?,
                environment: row.get(1)?,
                commit: row.get(2)?,
                verdict: row.get(3)?,
                asked_by: row.get(4)?,
                decision,
                evidence,
            })
        })?;
        Ok(Some(found))
    }
}

fn chained(row: &Row<'_>) -> Result<ChainedDecision, DbError> {
    let text: String = row.get(7)?;
    Ok(ChainedDecision {
        id: row.get(0)?,
        verdict: row.get(1)?,
        at_ms: row.get(2)?,
        environment: row.get(3)?,
        commit: row.get(4)?,
        asked_by: row.get(5)?,
        to: step_of(&text),
        digest: row.get(6)?,
    })
}

/// A query, and the line of one of its rows.
type Lines = (&'static str, fn(&Row<'_>) -> Result<AuditLine, StoreError>);

const SITES: Lines = (
    "SELECT site, role, environment, cluster_type, enrolled_ms, revoked_ms, counts_from_ms FROM sites ORDER BY site",
    |row| {
        Ok(AuditLine::Site {
            site: row.get(0)?,
            role: row.get(1)?,
            environment: row.get(2)?,
            cluster_type: row.get(3)?,
            enrolled_ms: row.get(4)?,
            revoked_ms: row.get(5)?,
            counts_from_ms: row.get(6)?,
        })
    },
);

const SITE_KEYS: Lines = (
    "SELECT site, generation, public_key FROM site_keys ORDER BY site, generation",
    |row| {
        Ok(AuditLine::SiteKey {
            site: row.get(0)?,
            generation: row.get(1)?,
            public_key: row.get(2)?,
        })
    },
);

const METADATA: Lines = (
    "SELECT id, role, at_ms, files, index_body FROM accepted_metadata ORDER BY id",
    |row| {
        Ok(AuditLine::Metadata {
            id: row.get(0)?,
            role: row.get(1)?,
            at_ms: row.get(2)?,
            files: parse(&row.get::<_, String>(3)?, "metadata")?,
            index: row.get(4)?,
        })
    },
);

const REPORTS: Lines = (
    concat!(
        "SELECT r.site, r.epoch, e.ordinal, r.number, r.via, r.received_ms, ",
        envelope!(),
        ", r.digest
       FROM reports r JOIN epochs e ON e.site = r.site AND e.epoch = r.epoch
      ORDER BY r.site, e.ordinal, r.number"
    ),
    |row| {
        let (site, epoch): (String, String) = (row.get(0)?, row.get(1)?);
        let number = from_sql(row.get(3)?);
        let Some(envelope) = kept(row.get(6)?, &row.get::<_, String>(7)?) else {
            return Err(StoreError::NoEnvelope {
                site,
                epoch,
                number,
            });
        };
        Ok(AuditLine::Report {
            site,
            epoch,
            ordinal: row.get(2)?,
            number,
            via: row.get(4)?,
            received_ms: row.get(5)?,
            envelope: String::from_utf8_lossy(&envelope).trim_end().to_owned(),
        })
    },
);

const REMOVED: Lines = (
    "SELECT d.epoch, d.first_number, d.last_number, d.since_ms, r.rule, r.by_name, d.site
       FROM removed_reports d JOIN removals r ON r.id = d.removal
      ORDER BY d.site, d.epoch, d.first_number",
    |row| {
        let range = removed::range(row)?;
        Ok(AuditLine::Removed {
            site: range.site,
            epoch: range.epoch,
            first: range.first,
            last: range.last,
            since_ms: range.since_ms,
            rule: range.rule,
            by: range.by,
        })
    },
);
