//! What bundles and their images hold: bills of materials, by the digests that signed indexes list. Statements that bundles carry are
//! listed beside them.
//!
//! What comes in: the bills that a bundle's index lists, and their contents, once someone has compared their digests. What goes out:
//! the components of a name, and what is known of a bundle. A bill on record never changes; one that several bundles
//! carry is kept once.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_affected::{CarriedImage, Component, ComponentKind, Distribution, Materials};
use outhaul_bundle::Digest;

use super::db::{DbError, OptionalExtension as _, Row, params};
use super::{Session, StoreError, from_sql, json, parse, to_sql};

/// What a bill of materials says besides its components.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BillSummary {
    /// The images that it names.
    pub images: Vec<CarriedImage>,
    /// What it says is not known.
    pub unknown: BTreeSet<String>,
}

impl Session<'_> {
    /// Notes which bills of materials, and documents of statements, a bundle lists: file names and digests.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn list_materials(
        &self,
        role: &str,
        number: u64,
        listed: &[(String, Digest)],
    ) -> Result<(), StoreError> {
        let text =
            "INSERT INTO bundle_materials (role, number, path, digest) VALUES ($1, $2, $3, $4)
             ON CONFLICT (role, number, path) DO NOTHING";
        let mut insert = self.db.prepare_cached(text)?;
        for (path, digest) in listed {
            insert.execute(params![role, to_sql(number), path, digest.to_string()])?;
        }
        Ok(())
    }

    /// What a bundle lists, by file name: the digest, and whether it is on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn materials_of(
        &self,
        role: &str,
        number: u64,
    ) -> Result<BTreeMap<String, (String, bool)>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT b.path, b.digest, COALESCE(m.digest, d.digest) FROM bundle_materials b
               LEFT JOIN materials m ON m.digest = b.digest LEFT JOIN carried_documents d ON d.digest = b.digest
              WHERE b.role = $1 AND b.number = $2",
        )?;
        let rows = query.query_map(params![role, to_sql(number)], |row| {
            let there: Option<String> = row.get(2)?;
            Ok((row.get(0)?, (row.get(1)?, there.is_some())))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// As which file a bundle on record lists this digest, and whether its content is on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn listed_as(&self, digest: &Digest) -> Result<(Option<String>, bool), StoreError> {
        let text = "SELECT (SELECT MIN(path) FROM bundle_materials WHERE digest = $1),
             EXISTS (SELECT 1 FROM materials WHERE digest = $1 UNION ALL SELECT 1 FROM carried_documents WHERE digest = $1)";
        let digest = digest.to_string();
        Ok(self
            .db
            .query_row(text, params![digest], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    /// Keeps the content of a bill that is not on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_materials(
        &self,
        digest: &Digest,
        materials: &Materials,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        let digest = digest.to_string();
        let text =
            "INSERT INTO materials (digest, images, unknown, recorded_ms) VALUES ($1, $2, $3, $4)
             ON CONFLICT (digest) DO NOTHING";
        let images = json(&materials.images, "images of a bill of materials")?;
        let unknown = json(&materials.unknown, "unknowns of a bill of materials")?;
        let new = self
            .db
            .execute(text, params![digest, images, unknown, now_ms])?;
        if new == 0 {
            return Ok(());
        }
        let text = "INSERT INTO components (materials, ordinal, kind, advised_name, distribution, release, name, version,
                source_name, source_version, purl, assignments)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let mut insert = self.db.prepare_cached(text)?;
        for (ordinal, one) in materials.components.iter().enumerate() {
            let source = one.source.as_ref();
            insert.execute(params![
                digest,
                to_sql(ordinal as u64),
                one.kind.as_str(),
                one.advised_name(),
                one.distribution.id,
                one.distribution.release,
                one.name,
                one.version,
                source.map(|(name, _)| name.clone()),
                source.map(|(_, version)| version.clone()),
                one.purl,
                json(&one.assignments, "assignments of a component")?
            ])?;
        }
        Ok(())
    }

    /// The releases of distributions of which a package is on record, at most a thousand.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn releases_on_record(&self) -> Result<BTreeSet<Distribution>, StoreError> {
        let text =
            "SELECT DISTINCT distribution, release FROM components WHERE release <> '' LIMIT 1000";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![], |row| {
            let (id, release) = (row.get(0)?, row.get(1)?);
            Ok(Distribution { id, release })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Every component of a kind that is called `name`, or that was built from a source of that name, with the digest of the bill that
    /// lists it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn components_named(
        &self,
        kind: ComponentKind,
        name: &str,
    ) -> Result<Vec<(String, Component)>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT materials, distribution, release, name, version, source_name, source_version, purl, assignments
               FROM components WHERE kind = $1 AND (advised_name = $2 OR name = $2) ORDER BY materials, ordinal",
        )?;
        let rows = query.query_map(params![kind.as_str(), name], |row| component(row, kind))?;
        let rows: Vec<(String, Component, String)> = rows.collect::<Result<_, _>>()?;
        rows.into_iter()
            .map(|(digest, mut component, assignments)| {
                component.assignments = parse(&assignments, "assignments of a component")?;
                Ok((digest, component))
            })
            .collect()
    }

    /// What a bill on record says besides its components.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn bill_summary(&self, digest: &str) -> Result<Option<BillSummary>, StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT images, unknown FROM materials WHERE digest = $1")?;
        let row: Option<(String, String)> = query
            .query_row(params![digest], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((images, unknown)) = row else {
            return Ok(None);
        };
        Ok(Some(BillSummary {
            images: parse(&images, "images of a bill of materials")?,
            unknown: parse(&unknown, "unknowns of a bill of materials")?,
        }))
    }

    /// Which sites an assignment of a bundle is for; `None` for all, or where it is not on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn sites_of_assignment(
        &self,
        role: &str,
        number: u64,
        assignment: &str,
    ) -> Result<Option<BTreeSet<String>>, StoreError> {
        let text = "SELECT sites FROM bundle_assignments WHERE role = $1 AND number = $2 AND assignment = $3";
        let mut query = self.db.prepare_cached(text)?;
        let sites: Option<Option<String>> = query
            .query_row(params![role, to_sql(number), assignment], |row| row.get(0))
            .optional()?;
        let sites = sites.flatten();
        sites.map(|sites| parse(&sites, "sites")).transpose()
    }

    /// What each site that is not revoked runs, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn running_bundles(&self) -> Result<Vec<SiteBundle>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT s.site, s.environment, s.cluster_type, s.enrolled_ms, r.received_ms, o.role, o.bundle_number,
                    o.index_digest
               FROM sites s LEFT JOIN current_states c ON c.site = s.site
               LEFT JOIN reports r ON r.site = c.site AND r.epoch = c.epoch AND r.number = c.newest
               LEFT JOIN observations o ON o.site = c.site AND o.epoch = c.epoch AND o.number = c.running
              WHERE s.revoked_ms IS NULL ORDER BY s.site",
        )?;
        let rows = query.query_map([], |row| {
            let role: Option<String> = row.get(5)?;
            let running = match role {
                None => None,
                Some(role) => Some(RunningBundle {
                    role,
                    number: from_sql(row.get(6)?),
                    index: row.get(7)?,
                }),
            };
            Ok(SiteBundle {
                site: row.get(0)?,
                environment: row.get(1)?,
                cluster_type: row.get(2)?,
                enrolled_ms: row.get(3)?,
                received_ms: row.get(4)?,
                running: running.filter(|running| running.number > 0),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// A site, and what it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteBundle {
    /// Its name.
    pub site: String,
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// When it was registered, milliseconds since 1970.
    pub enrolled_ms: i64,
    /// When its newest report was received; `None` when it never reported.
    pub received_ms: Option<i64>,
    /// What it runs, as it reports; `None` when it runs nothing.
    pub running: Option<RunningBundle>,
}

/// A bundle that runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningBundle {
    /// The signing role of its stream.
    pub role: String,
    /// Its number.
    pub number: u64,
    /// Digest of its index, as the site reports it.
    pub index: String,
}

fn component(row: &Row<'_>, kind: ComponentKind) -> Result<(String, Component, String), DbError> {
    let source: Option<String> = row.get(5)?;
    let source_version: Option<String> = row.get(6)?;
    let component = Component {
        kind,
        distribution: Distribution {
            id: row.get(1)?,
            release: row.get(2)?,
        },
        name: row.get(3)?,
        version: row.get(4)?,
        source: source.zip(source_version),
        purl: row.get(7)?,
        assignments: BTreeSet::new(),
    };
    Ok((row.get(0)?, component, row.get(8)?))
}
