//! Desired state: what verified bundles say should run, and the metadata that listed them.
//!
//! What comes in: bundles whose signatures `desired` has checked. What goes out: the bundles of a
//! stream, and what the update framework's client remembers per stream. A recorded bundle never changes.

use std::collections::{BTreeMap, BTreeSet};

use super::db::{OptionalExtension as _, params};
use outhaul_bundle::Index;
use outhaul_bundle::index::{Content, Source};
use outhaul_gate::facts::{DesiredAssignment, DesiredBundle, Signed};

use super::{Session, StoreError, from_sql, json, parse, to_sql};

/// What was verified last of one stream, as it was carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedTimestamp {
    /// The root metadata.
    pub root: Vec<u8>,
    /// The timestamp metadata.
    pub timestamp: Vec<u8>,
}

/// The commit of the environment in a snapshot on record; the rest of it, which may be long, is passed over.
fn environment_commit(snapshot: &str) -> Result<String, StoreError> {
    #[derive(serde::Deserialize)]
    struct OfEnvironment {
        environment: Source,
    }
    parse::<OfEnvironment>(snapshot, "a snapshot").map(|found| found.environment.commit)
}

impl Session<'_> {
    /// Digest and size of the index recorded for a number of a stream.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn bundle_index(&self, role: &str, number: u64) -> Result<Option<Content>, StoreError> {
        let text = "SELECT index_digest, index_size FROM bundles WHERE role = $1 AND number = $2";
        let key = params![role, to_sql(number)];
        let row: Option<(String, i64)> = self
            .db
            .query_row(text, key, |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let corrupt = |_| StoreError::Corrupt {
            what: format!("digest of bundle {number}"),
        };
        row.map(|(digest, size)| {
            Ok(Content {
                digest: digest.parse().map_err(corrupt)?,
                size: from_sql(size),
            })
        })
        .transpose()
    }

    /// Records a bundle that is not recorded yet.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_bundle(
        &self,
        index: &Index,
        content: Content,
        signed: Signed,
        recorded_ms: i64,
    ) -> Result<(), StoreError> {
        let role = index.stream.role.as_str();
        let number = to_sql(index.number);
        let text = "INSERT INTO bundles (role, number, environment, cluster_type, index_digest,
                index_size, base_commit, snapshot, recipients, reconciler, issued_ms, expires_ms,
                recorded_ms, signed_as)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
        self.db.execute(
            text,
            params![
                role,
                number,
                index.stream.environment.as_str(),
                index.stream.cluster_type.as_str(),
                content.digest.to_string(),
                to_sql(content.size),
                index.snapshot.base.commit,
                json(&index.snapshot, "a snapshot")?,
                json(&index.recipients, "recipients")?,
                index.reconciler.kind.as_str(),
                signed.issued_ms,
                signed.expires_ms,
                recorded_ms,
                to_sql(signed.signed_as)
            ],
        )?;
        let text = "INSERT INTO bundle_assignments
                (role, number, assignment, workload, workspace, policies, config_version, sites)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let mut insert = self.db.prepare_cached(text)?;
        for assignment in &index.assignments {
            let sites = assignment.sites.as_ref();
            insert.execute(params![
                role,
                number,
                assignment.name.as_str(),
                assignment.workload,
                assignment.workspace,
                json(&assignment.policies, "policies")?,
                assignment.config_version.to_string(),
                sites.map(|sites| json(sites, "sites")).transpose()?
            ])?;
        }
        let text = "INSERT INTO bundle_overlays (role, number, assignment, site, config_version)
             VALUES ($1, $2, $3, $4, $5)";
        let mut insert = self.db.prepare_cached(text)?;
        for assignment in &index.assignments {
            for overlay in &assignment.overlays {
                let version = overlay.config_version.to_string();
                for site in &overlay.sites {
                    let (name, site) = (assignment.name.as_str(), site.as_str());
                    insert.execute(params![role, number, name, site, version])?;
                }
            }
        }
        Ok(())
    }

    /// Notes which keys of the stream signed a bundle: those that signed it last.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_signers(
        &self,
        role: &str,
        number: u64,
        signers: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let text = "UPDATE bundles SET signers = $1 WHERE role = $2 AND number = $3";
        let signers = json(signers, "signers")?;
        self.db
            .execute(text, params![signers, role, to_sql(number)])?;
        Ok(())
    }

    /// Whether a bundle on record was signed by a key that is not among the stream's `keys`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn is_taken_back(
        &self,
        role: &str,
        number: u64,
        keys: &BTreeSet<String>,
    ) -> Result<bool, StoreError> {
        let text = "SELECT signers FROM bundles WHERE role = $1 AND number = $2";
        let signers: Option<String> = self
            .db
            .query_row(text, params![role, to_sql(number)], |row| row.get(0))
            .optional()?;
        let signers: BTreeSet<String> = match signers {
            Some(text) => parse(&text, "signers")?,
            None => return Ok(false),
        };
        Ok(!signers.is_subset(keys))
    }

    /// Marks every bundle of a stream by whether all that signed it are among the stream's `keys`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn mark_withdrawn(&self, role: &str, keys: &BTreeSet<String>) -> Result<(), StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT number, signers, taken_back FROM bundles WHERE role = $1")?;
        let rows = query.query_map(params![role], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        let rows: Vec<(i64, String, bool)> = rows.collect::<Result<_, _>>()?;
        for (number, signers, was) in rows {
            let signers: BTreeSet<String> = parse(&signers, "signers")?;
            let is = !signers.is_subset(keys);
            if is != was {
                let text = "UPDATE bundles SET taken_back = $1 WHERE role = $2 AND number = $3";
                self.db.execute(text, params![is, role, number])?;
            }
        }
        Ok(())
    }

    /// Removes a bundle from the record, so that the fleet's own can have its number.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn forget_bundle(&self, role: &str, number: u64) -> Result<(), StoreError> {
        for table in [
            "bundle_materials",
            "bundle_overlays",
            "bundle_assignments",
            "bundles",
        ] {
            let text = format!("DELETE FROM {table} WHERE role = $1 AND number = $2");
            self.db.execute(&text, params![role, to_sql(number)])?;
        }
        Ok(())
    }

    /// Every bundle, by stream and number.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn bundles(&self) -> Result<Vec<DesiredBundle>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT role, environment, cluster_type, number, index_digest, base_commit,
                    recipients, issued_ms, expires_ms, signed_as, taken_back, snapshot
               FROM bundles ORDER BY role, number",
        )?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(DesiredBundle {
                role: row.get(0)?,
                environment: row.get(1)?,
                cluster_type: row.get(2)?,
                number: from_sql(row.get(3)?),
                index: row.get(4)?,
                base_commit: row.get(5)?,
                environment_commit: environment_commit(&row.get::<_, String>(11)?)?,
                recipients: parse(&row.get::<_, String>(6)?, "recipients")?,
                taken_back: row.get(10)?,
                signed: Signed {
                    issued_ms: row.get(7)?,
                    expires_ms: row.get(8)?,
                    signed_as: from_sql(row.get(9)?),
                },
            });
        }
        Ok(found)
    }

    /// The assignments of one bundle, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn bundle_assignments(
        &self,
        role: &str,
        number: u64,
    ) -> Result<Vec<DesiredAssignment>, StoreError> {
        self.first_bundle_assignments(role, number, usize::MAX)
    }

    /// The first so many assignments of one bundle, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn first_bundle_assignments(
        &self,
        role: &str,
        number: u64,
        at_most: usize,
    ) -> Result<Vec<DesiredAssignment>, StoreError> {
        let at_most = to_sql(at_most as u64);
        let mut query = self.db.prepare_cached(
            "SELECT assignment, site, config_version
               FROM bundle_overlays WHERE role = $1 AND number = $2 AND assignment IN
                    (SELECT assignment FROM bundle_assignments
                      WHERE role = $1 AND number = $2 ORDER BY assignment LIMIT $3)",
        )?;
        let mut rows = query.query(params![role, to_sql(number), at_most])?;
        let mut own: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let of: &mut BTreeMap<_, _> = own.entry(row.get(0)?).or_default();
            of.insert(row.get(1)?, row.get(2)?);
        }
        let mut query = self.db.prepare_cached(
            "SELECT assignment, workload, workspace, policies, config_version, sites
               FROM bundle_assignments WHERE role = $1 AND number = $2 ORDER BY assignment LIMIT $3",
        )?;
        let mut rows = query.query(params![role, to_sql(number), at_most])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let assignment: String = row.get(0)?;
            let sites: Option<String> = row.get(5)?;
            found.push(DesiredAssignment {
                own: own.remove(&assignment).unwrap_or_default(),
                assignment,
                workload: row.get(1)?,
                workspace: row.get(2)?,
                policies: parse(&row.get::<_, String>(3)?, "policies")?,
                config_version: row.get(4)?,
                sites: sites.map(|text| parse(&text, "sites")).transpose()?,
            });
        }
        Ok(found)
    }

    /// The metadata trusted for a stream, by name; empty for a stream that is new.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn trusted_metadata(&self, role: &str) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
        let text = "SELECT name, body FROM trusted_metadata WHERE role = $1 ORDER BY name";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![role], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Root and timestamp metadata that were verified last, of each stream that has a timestamp.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn trusted_timestamps(&self) -> Result<Vec<TrustedTimestamp>, StoreError> {
        let text = "SELECT r.body, t.body FROM trusted_metadata t
             JOIN trusted_metadata r ON r.role = t.role AND r.name = 'root.json'
             WHERE t.name = 'timestamp.json' ORDER BY t.role";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map([], |row| {
            Ok(TrustedTimestamp {
                root: row.get(0)?,
                timestamp: row.get(1)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The highest versions accepted for a stream.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn trusted_floors(&self, role: &str) -> Result<BTreeMap<String, u64>, StoreError> {
        let text = "SELECT name, version FROM trusted_floors WHERE role = $1 ORDER BY name";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![role], |row| {
            Ok((row.get(0)?, from_sql(row.get(1)?)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Replaces what is trusted for a stream.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_trusted(
        &self,
        role: &str,
        metadata: &BTreeMap<String, Vec<u8>>,
        floors: &BTreeMap<String, u64>,
    ) -> Result<(), StoreError> {
        self.db.execute(
            "DELETE FROM trusted_metadata WHERE role = $1",
            params![role],
        )?;
        for (name, body) in metadata {
            let text = "INSERT INTO trusted_metadata (role, name, body) VALUES ($1, $2, $3)";
            self.db.execute(text, params![role, name, body])?;
        }
        for (name, version) in floors {
            let text = "INSERT INTO trusted_floors (role, name, version) VALUES ($1, $2, $3)
                 ON CONFLICT (role, name) DO UPDATE SET version = excluded.version";
            self.db
                .execute(text, params![role, name, to_sql(*version)])?;
        }
        Ok(())
    }
}
